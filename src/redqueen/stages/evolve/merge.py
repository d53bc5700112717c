"""Merges: many members, one adapter."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from redqueen.config.registry import Choice, Registry

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

Merge = Callable[[Sequence["Adapter"], Any], "Adapter"]


def mean(adapters: Sequence["Adapter"], settings: Choice) -> "Adapter":
    """A model soup (Wortsman et al. 2022, arXiv 2203.05482): the mean of what all members add to
    the base, cut back to their rank: the nearest adapter to their average. Averaging A and B by
    themselves would be another thing, with cross terms that are in no member."""
    import torch

    from redqueen.models.adapter import Adapter, LoraPair
    from redqueen.stages.evolve.lowrank import Span, stacks

    projections: dict[str, LoraPair] = {}
    for parents in stacks(adapters, torch.device("cpu")):
        span = Span(*parents)
        merged = span.svd(span.weighted(*[1 / len(parents)] * len(parents))).child()
        for place, name in enumerate(merged.names):
            projections[name] = LoraPair(merged.a[place], merged.b[place])
    first = adapters[0]
    return Adapter({name: projections[name] for name in first.projections}, first.rank, first.alpha)


MERGES: Registry[Merge] = Registry("merge", {"mean": mean})


def merge_adapters(adapters: Sequence["Adapter"], merge: Choice | str = "mean") -> "Adapter":
    choice = MERGES.choose(merge)
    return MERGES[choice.type](adapters, choice.options)
