"""Engines: what runs a model. The records that go in and come out are here; they need no torch."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Row:
    """One text to be continued."""

    prompt: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Sampling:
    temperature: float = 1.0
    """Zero takes the likeliest token each time."""
    stop_tokens: frozenset[int] = frozenset()
    stop_texts: tuple[str, ...] = ()
    """A row ends where it has written one of these."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    tokens: tuple[int, ...]
    """What was written, a stop token included."""
    ended: Literal["stop", "length"]
