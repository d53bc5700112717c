"""M4, gaussian: noise on every entry of A and B, in proportion to the tensor's spread. On the raw
factors.

A newborn's B has no spread and stays zero: its child is another newborn, with another A.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from torch import Tensor

    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class Gaussian(OperatorSettings):
    """PopuLoRA (arXiv 2605.16727)."""

    type: str = "gaussian"
    eps: float = Field(default=0.15, ge=0)
    """Spread of the noise, as a share of the tensor's own."""


def gaussian(parent: "Stack", settings: Gaussian, rng: "OperatorRng") -> "Stack":
    """Normal noise on every entry of A and B, in proportion to the tensor's spread."""
    return replace(
        parent,
        a=noisy(parent.a, settings.eps, parent.names, rng),
        b=noisy(parent.b, settings.eps, parent.names, rng),
    )


def noisy(factor: "Tensor", eps: float, names: tuple[str, ...], rng: "OperatorRng") -> "Tensor":
    """A stack of tensors with normal noise of `eps` times the spread of each."""
    spread = factor.std((1, 2), correction=0, keepdim=True)
    return rng.normal(names, factor).mul_(eps * spread).add_(factor)
