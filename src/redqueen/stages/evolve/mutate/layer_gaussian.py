"""M2, layer_gaussian: noise as `gaussian` makes it, in a random share of the projections; the
others stay as they are. On the raw factors."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.mutate.gaussian import noisy
from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class LayerGaussian(OperatorSettings):
    """PopuLoRA (arXiv 2605.16727)."""

    type: str = "layer_gaussian"
    eps: float = Field(default=0.1, ge=0)
    """Spread of the noise, as a share of the tensor's own."""
    frac: float = Field(default=0.33, ge=0, le=1)
    """Share of the projections that get it, at least one."""


def layer_gaussian(parent: "Stack", settings: LayerGaussian, rng: "OperatorRng") -> "Stack":
    """Noise as `gaussian` makes it, in a random share of the projections."""
    chosen = rng.chosen("layer_gaussian", settings.frac)
    places = [place for place, name in enumerate(parent.names) if name in chosen]
    if not places:
        return parent
    names = tuple(parent.names[place] for place in places)
    a, b = parent.a.clone(), parent.b.clone()
    a[places], b[places] = (
        noisy(a[places], settings.eps, names, rng),
        noisy(b[places], settings.eps, names, rng),
    )
    return replace(parent, a=a, b=b)
