"""What operators have in common: their settings, and how many parents they take.

A mutation is a function `(parent, settings, rng) -> Stack`, a crossover
`(first, second, settings, rng) -> Stack` with the fitter parent first. One with an attribute
`parents` says how many parents count for the child's rating and lineage.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.config.registry import Choice, CustomChoice

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack

Operator = Callable[..., "Stack"]


class OperatorSettings(Choice):
    """Settings of one operator in the mix."""

    weight: float = Field(default=1.0, gt=0)
    """How often it is chosen, beside the others of the mix."""


class CustomOperator(CustomChoice, OperatorSettings):
    """An operator of your own by import path, with whatever settings it takes."""
