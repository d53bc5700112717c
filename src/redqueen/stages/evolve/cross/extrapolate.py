"""X4, extrapolate: from the weaker parent to the fitter one and beyond. On Delta.

The rule is P1 + eta (P2 - P1) with eta above one. Which parent is which is not known; ours goes
past the fitter one, which stands first here.
"""

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from redqueen.stages.evolve.cross.linear import combined
from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class Extrapolate(OperatorSettings):
    """PopuLoRA (arXiv 2605.16727); as model extrapolation, Zheng et al. 2024 (arXiv 2404.16792)."""

    type: str = "extrapolate"
    eta_low: float = Field(default=1.0, ge=0)
    """Smallest step; 1 is the fitter parent itself, 0 the weaker one."""
    eta_high: float = Field(default=1.5, ge=0)
    """Largest step. One is drawn for each child."""

    @model_validator(mode="after")
    def _range(self) -> "Extrapolate":
        if self.eta_low > self.eta_high:
            raise ValueError(
                f"eta_low must not be above eta_high; got {self.eta_low} and {self.eta_high}"
            )
        return self


def extrapolate(
    first: "Stack", second: "Stack", settings: Extrapolate, rng: "OperatorRng"
) -> "Stack":
    """From the weaker parent to the fitter one and beyond."""
    eta = settings.eta_low + (settings.eta_high - settings.eta_low) * rng.once("extrapolate")
    return combined(first, second, eta, 1 - eta)
