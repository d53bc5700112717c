"""M3, component_mask: a random share of the singular components is set to zero. On Delta.

A masked component keeps its direction in A, with a B of zero: it can be learned again, as a
newborn's.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class ComponentMask(OperatorSettings):
    """PopuLoRA (arXiv 2605.16727)."""

    type: str = "component_mask"
    rho: float = Field(default=0.3, ge=0, le=1)
    """Share of the components that go, in each projection, rounded to a whole number."""


def component_mask(parent: "Stack", settings: ComponentMask, rng: "OperatorRng") -> "Stack":
    """A random share of the singular components becomes zero, in each projection."""
    svd = parent.svd()
    places = rng.normal(parent.names, svd.values).argsort(1).argsort(1)
    kept = places >= round(settings.rho * parent.rank)
    return replace(svd, carried=svd.carried * kept[:, :, None]).child()
