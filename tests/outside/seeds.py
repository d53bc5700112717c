"""Problems that an archive begins with."""

from collections.abc import Sequence
from random import Random

from examples.custom_task import Sum


def one_sum(rng: Random, count: int, tiers: range, kinds: Sequence[str]) -> list[tuple[str, Sum]]:
    return [("examples.custom_task:Sums", Sum((1, 2)))]
