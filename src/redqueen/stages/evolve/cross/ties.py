"""ties: small entries are trimmed, each place takes the sign with more weight behind it, and the
parents of that sign are averaged. On Delta.

Entries of two parents can be compared only in one basis: both Deltas are written in a common
orthonormal basis of what their As span, and trimmed and elected there, not in the full matrix,
which is never made. What is trimmed is found from a sample of about 16,000 entries.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from torch import Tensor

    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


_SAMPLE = 2**14


class Ties(OperatorSettings):
    """TIES-Merging, Yadav et al. 2023 (arXiv 2306.01708)."""

    type: str = "ties"
    density: float = Field(default=0.2, gt=0, le=1)
    """Share of the entries that are kept, the largest; 1 trims nothing."""


def ties(first: "Stack", second: "Stack", settings: Ties, rng: "OperatorRng") -> "Stack":
    """The largest entries are kept, each place takes the heavier sign, and the parents of that
    sign are averaged."""
    from redqueen.stages.evolve.lowrank import Span

    span = Span(first, second)
    parents = [trimmed(entries, settings.density) for entries in span.coordinates()]
    return span.from_coordinates(elected(parents, parents))


def elected(votes: "list[Tensor]", parents: "list[Tensor]") -> "Tensor":
    """In each place the mean of both parents where their votes have one sign, else the parent with
    the heavier vote, and of equals the first."""
    (one, other), (first, second) = votes, parents
    heavier = first.where(one.abs() >= other.abs(), second)
    return (first + second).mul_(0.5).where(one * other > 0, heavier)


def trimmed(entries: "Tensor", density: float) -> "Tensor":
    """The largest entries, by size; the others are nil."""
    if density == 1:
        return entries
    sizes = entries.abs()
    flat = sizes.flatten(1)
    sample = flat[
        :, :: flat.shape[1] // _SAMPLE | 1
    ]  # an odd stride: not the same columns in every row
    least = sample.kthvalue(
        min(1 + int((1 - density) * sample.shape[1]), sample.shape[1]), 1
    ).values
    return entries * (sizes >= least[:, None, None])
