"""Random choices, each made from one `rng.random()`: cheaper than the methods of `random.Random`,
and writing a program takes hundreds."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices:
    def __init__(self, rng: Random) -> None:
        self.random = rng.random

    def below(self, count: int) -> int:
        return int(self.random() * count)

    def between(self, low: int, high: int) -> int:
        """An int from low to high, both included."""
        return low + int(self.random() * (high - low + 1))

    def flip(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]
