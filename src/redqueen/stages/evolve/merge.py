"""Merges: many members, one adapter. A function `(parents, fitness, settings, rng) -> Stack`, with
a stack and a fitness of each parent, and a row here.

All act on Delta: averaging A and B by themselves would be another thing, with cross terms that are
in no parent. The merged Delta is cut back to the parents' rank, the nearest one to it.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.config.registry import Choice, Entry, Registry

if TYPE_CHECKING:
    from torch import Tensor

    from redqueen.models.adapter import Adapter
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng

Merge = Callable[..., "Stack"]


class Mean(Choice):
    """A model soup, Wortsman et al. 2022 (arXiv 2203.05482)."""

    type: str = "mean"


class Weighted(Choice):
    type: str = "weighted"
    temperature: float = Field(default=1.0, gt=0)
    """A parent that is so many standard deviations fitter than another weighs e times as much."""


class TiesMerge(Choice):
    """TIES-Merging, Yadav et al. 2023 (arXiv 2306.01708)."""

    type: str = "ties"
    density: float = Field(default=0.2, gt=0, le=1)
    """Share of the entries that are kept, the largest; 1 trims nothing."""


class DareMerge(Choice):
    """DARE, Yu et al. 2023 (arXiv 2311.03099)."""

    type: str = "dare"
    drop: float = Field(default=0.7, ge=0, lt=1)
    """Chance of an entry to be dropped."""


def mean(
    parents: "Sequence[Stack]", fitness: Sequence[float], settings: Mean, rng: "OperatorRng"
) -> "Stack":
    """The mean of what the members add to the base."""
    return _add_up(parents, [1 / len(parents)] * len(parents))


def weighted(
    parents: "Sequence[Stack]", fitness: Sequence[float], settings: Weighted, rng: "OperatorRng"
) -> "Stack":
    """A mean in which fitter members weigh more: softmax of fitness in standard deviations."""
    return _add_up(parents, softmax(fitness, settings.temperature))


def ties(
    parents: "Sequence[Stack]", fitness: Sequence[float], settings: TiesMerge, rng: "OperatorRng"
) -> "Stack":
    """Small entries are trimmed, each place takes the sign with more weight behind it, and the
    parents of that sign are averaged; in a common basis, as the crossover of this name does."""
    from redqueen.stages.evolve.cross.ties import trimmed
    from redqueen.stages.evolve.lowrank import Span

    span = Span(*parents)
    return span.from_coordinates(
        _elected([trimmed(entries, settings.density) for entries in span.coordinates()])
    )


def dare(
    parents: "Sequence[Stack]", fitness: Sequence[float], settings: DareMerge, rng: "OperatorRng"
) -> "Stack":
    """Entries of each B are dropped by chance and the others enlarged to make up for it, then
    averaged."""
    from redqueen.stages.evolve.cross.dare import thinned

    keep = 1 - settings.drop
    return _add_up(
        [thinned(parent, keep, rng) for parent in parents], [1 / len(parents)] * len(parents)
    )


MERGES: Registry[Merge] = Registry(
    "merge",
    {
        "mean": Entry(mean, Mean),
        "weighted": Entry(weighted, Weighted),
        "ties": Entry(ties, TiesMerge),
        "dare": Entry(dare, DareMerge),
    },
)


def merge_adapters(
    adapters: Sequence["Adapter"],
    merge: Choice | str = "mean",
    fitness: Sequence[float] = (),
    seed: int = 0,
) -> "Adapter":
    """One adapter of many, where they are. Without fitness all are equally fit."""
    import torch

    from redqueen.models.adapter import Adapter, LoraPair
    from redqueen.stages.evolve.breed import revive
    from redqueen.stages.evolve.lowrank import stacks
    from redqueen.stages.evolve.operator_rng import OperatorRng

    choice = MERGES.choose(merge)
    first, fitness = adapters[0], fitness or [0.0] * len(adapters)
    rng = OperatorRng(seed, list(first.projections))
    home = next(iter(first.projections.values())).a.device
    projections: dict[str, LoraPair] = {}
    with torch.no_grad():
        for parents in stacks(adapters, home):
            merged = revive(MERGES[choice.type](parents, fitness, choice.options, rng), rng)
            for place, name in enumerate(merged.names):
                projections[name] = LoraPair(merged.a[place], merged.b[place])
    return Adapter({name: projections[name] for name in first.projections}, first.rank, first.alpha)


def softmax(fitness: Sequence[float], temperature: float) -> list[float]:
    """Weights that add up to one, by fitness in standard deviations; equal where all are alike."""
    center = sum(fitness) / len(fitness)
    spread = math.sqrt(sum((value - center) ** 2 for value in fitness) / len(fitness))
    scores = [
        math.exp((value - center) / (spread * temperature)) if spread else 1.0 for value in fitness
    ]
    return [score / sum(scores) for score in scores]


def _add_up(parents: "Sequence[Stack]", weights: Sequence[float]) -> "Stack":
    from redqueen.stages.evolve.lowrank import Span

    span = Span(*parents)
    return span.svd(span.weighted(*weights)).child()


def _elected(parents: "list[Tensor]") -> "Tensor":
    """In each place the mean of those parents that have the sign of the sum."""
    import torch

    every = torch.stack(parents)
    agree = every * every.sum(0) > 0
    return (every * agree).sum(0) / agree.sum(0).clamp(min=1)
