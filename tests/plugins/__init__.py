"""Plug-ins as somebody else would write them, named by import path in tests."""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


def scale_b(parent: "Stack", settings: dict[str, float], rng: "OperatorRng") -> "Stack":
    """A mutation: what the parent adds to the base, times a factor."""
    return replace(parent, b=parent.b * settings["factor"])
