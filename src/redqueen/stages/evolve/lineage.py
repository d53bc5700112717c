"""Lineage: who was made of whom, how and when, and who went and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Birth:
    """A child and how it came about."""

    child: str
    parents: tuple[str, ...]
    """The fitter one first; empty for members that were there from the beginning."""
    operator: str
    """A name of the operators' tables, an import path, or `newborn`."""
    settings: Mapping[str, Any]
    """The operator's settings, and the seed of its draws."""
    step: int


@dataclass(frozen=True, slots=True)
class Death:
    """A member that was replaced."""

    member: str
    step: int
    reason: str
    """In words, with the number that decided."""
