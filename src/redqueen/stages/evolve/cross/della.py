"""della: as dare, but small entries are dropped more often than large ones, and signs are elected
as in ties. On Delta.

Masks and votes are in the common basis of `ties`. Two departures: an entry's rank among the others
is read from the normal law instead of by sorting; and votes are cast before anything is dropped,
which makes the child, in expectation, the elected mean of its parents.
"""

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from redqueen.stages.evolve.cross.ties import elected
from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from torch import Tensor

    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class Della(OperatorSettings):
    """DELLA-Merging, Deep et al. 2024 (arXiv 2406.11617)."""

    type: str = "della"
    drop: float = Field(default=0.7, ge=0, lt=1)
    """Mean chance of an entry to be dropped."""
    spread: float = Field(default=0.2, ge=0, lt=1)
    """Difference of that chance between the smallest entry and the largest."""

    @model_validator(mode="after")
    def _chances(self) -> "Della":
        if self.drop and not self.spread / 2 <= self.drop < 1 - self.spread / 2:
            raise ValueError(
                "drop must lie between spread / 2 and 1 - spread / 2; "
                f"got drop {self.drop} and spread {self.spread}"
            )
        return self


def della(first: "Stack", second: "Stack", settings: Della, rng: "OperatorRng") -> "Stack":
    """As `dare`, but small entries are dropped more often, and signs are elected as in `ties`."""
    from redqueen.stages.evolve.lowrank import Span

    span = Span(first, second)
    whole = span.coordinates()
    return span.from_coordinates(
        elected(whole, [_thinned(entries, settings, first.names, rng) for entries in whole])
    )


def _thinned(
    entries: "Tensor", settings: Della, names: tuple[str, ...], rng: "OperatorRng"
) -> "Tensor":
    """Entries dropped by chance, the others enlarged by their own chance to stay: the mean is as
    before."""
    if settings.drop == 0:
        return entries
    typical = entries.square().mean((1, 2), keepdim=True).sqrt().clamp_(min=1e-30)
    places = (entries.abs() / (typical * 2**0.5)).erf_()
    keep = places.sub_(0.5).mul_(settings.spread).add_(1 - settings.drop)
    return entries * (rng.uniform(names, entries) < keep) / keep
