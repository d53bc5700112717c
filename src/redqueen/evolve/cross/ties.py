"""ties: small entries are trimmed, each place takes the sign with more weight behind it, and the parents of that sign are averaged. On Delta.

Entries of two parents can be compared only in one basis: both Deltas are written in a common orthonormal basis of what their As span, and
trimmed and elected there, not in the full matrix, which is never made. What is trimmed is found from a sample of up to 65,536 entries.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from redqueen.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from torch import Tensor

    from redqueen.evolve.draws import Draws
    from redqueen.evolve.thin import Stack


_SAMPLE = 2**16


class Ties(OperatorSettings):
    """TIES-Merging, Yadav et al. 2023 (arXiv 2306.01708)."""

    type: Literal["ties"] = "ties"
    density: float = Field(default=0.2, gt=0, le=1)
    """Share of the entries that are kept, the largest; 1 trims nothing."""


def ties(first: "Stack", second: "Stack", settings: Ties, draws: "Draws") -> "Stack":
    from redqueen.evolve.thin import Span

    span = Span(first, second)
    parents = [_trimmed(entries, settings.density) for entries in span.coordinates()]
    return span.from_coordinates(elected(parents, parents))


def elected(signs: "list[Tensor]", parents: "list[Tensor]") -> "Tensor":
    """In each place the mean of those parents that have the sign of the sum; who has which sign is read from `signs`."""
    sign = sum(signs[1:], signs[0]).sign()
    agree = [(entries * sign > 0).to(entries.dtype) for entries in signs]
    total = sum(entries * agrees for entries, agrees in zip(parents, agree, strict=True))
    return total / sum(agree[1:], agree[0]).clamp_(min=1)


def _trimmed(entries: "Tensor", density: float) -> "Tensor":
    if density == 1:
        return entries
    sizes = entries.abs()
    flat = sizes.flatten(1)
    sample = flat[:, :: flat.shape[1] // _SAMPLE | 1].sort(1).values  # an odd stride: not the same columns in every row
    least = sample[:, int((1 - density) * sample.shape[1])]
    return entries * (sizes >= least[:, None, None])
