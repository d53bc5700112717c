"""X2, layerwise: each projection whole from one parent, by coin. On the raw factors."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class Layerwise(OperatorSettings):
    """PopuLoRA (arXiv 2605.16727)."""

    type: str = "layerwise"
    share: float = Field(default=0.5, ge=0, le=1)
    """Chance of a projection to come from the second parent."""


def layerwise(first: "Stack", second: "Stack", settings: Layerwise, rng: "OperatorRng") -> "Stack":
    """Each projection comes whole from one parent, at random."""
    coins = [rng.once(f"layerwise {name}") < settings.share for name in first.names]
    other = first.a.new_tensor(coins).bool()[:, None, None]
    return replace(first, a=second.a.where(other, first.a), b=second.b.where(other, first.b))
