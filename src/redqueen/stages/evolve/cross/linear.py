"""linear: the weighted mean of both Deltas, cut back to the rank. On Delta. At one half it is the
control of all crossovers.

Averaging A and B by themselves would be another thing: their product has cross terms that are in
neither parent.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from torch import Tensor

    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class Linear(OperatorSettings):
    """Model soups, Wortsman et al. 2022 (arXiv 2203.05482)."""

    type: str = "linear"
    share: float = Field(default=0.5, ge=0, le=1)
    """Weight of the second parent; the first has the rest."""


def linear(first: "Stack", second: "Stack", settings: Linear, rng: "OperatorRng") -> "Stack":
    """The weighted mean of both parents, cut back to their rank."""
    return combined(first, second, 1 - settings.share, settings.share)


def combined(
    first: "Stack", second: "Stack", one: "Tensor | float", other: "Tensor | float"
) -> "Stack":
    """Both Deltas with their weights (numbers, or one a projection), cut back to the rank."""
    from redqueen.stages.evolve.lowrank import Span

    span = Span(first, second)
    return span.svd(span.weighted(one, other)).child()
