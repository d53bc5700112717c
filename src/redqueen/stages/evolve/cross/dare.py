"""X1, dare: entries of each parent are dropped by chance and the others enlarged to make up for it,
then both are averaged. On Delta, masks on B.

The mask is on B, in the basis that the parent's A is: for any A that leaves the mean of Delta as it
was, which is all that is claimed.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.cross.linear import combined
from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class Dare(OperatorSettings):
    """DARE, Yu et al. 2023 (arXiv 2311.03099)."""

    type: str = "dare"
    drop: float = Field(default=0.7, ge=0, lt=1)
    """Chance of an entry to be dropped."""
    share: float = Field(default=0.5, ge=0, le=1)
    """Weight of the second parent; the first has the rest."""


def dare(first: "Stack", second: "Stack", settings: Dare, rng: "OperatorRng") -> "Stack":
    """Entries of each parent's B are dropped at random and the others rescaled, then both parents
    are averaged."""
    keep = 1 - settings.drop
    return combined(
        thinned(first, keep, rng),
        thinned(second, keep, rng),
        1 - settings.share,
        settings.share,
    )


def thinned(parent: "Stack", keep: float, rng: "OperatorRng") -> "Stack":
    return replace(parent, b=parent.b * (rng.uniform(parent.names, parent.b) < keep) / keep)
