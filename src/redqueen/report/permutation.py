"""Intervals and tests over seeds: few numbers, so nothing is assumed about their distribution, and
exact counts where they can be had.

With three seeds no test of this kind can give a p below 0.25 (paired) or 0.1 (apart): that is not a
fault of the test.
"""

import itertools
import math
from collections.abc import Sequence
from random import Random

_DRAWS = 4000
_EXACT = 20_000
"""Arrangements that are all looked at; of more, so many by chance."""


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def bootstrap(values: Sequence[float], seed: int = 0) -> tuple[float, float] | None:
    """The 95 % interval of the mean, from means of values drawn again and again; none for a single
    value."""
    if len(values) < 2:
        return None
    n, random = len(values), Random(seed)
    few = n**n <= _DRAWS  # then all samples can be looked at
    samples = (
        itertools.product(values, repeat=n)
        if few
        else (random.choices(values, k=n) for _ in range(_DRAWS))
    )
    means = sorted(sum(sample) / n for sample in samples)
    return means[int(0.025 * len(means))], means[math.ceil(0.975 * len(means)) - 1]


def sign_flip_p(differences: Sequence[float], seed: int = 0) -> float | None:
    """How often a mean difference as large comes about when every sign is a coin's: the paired
    test, two-sided."""
    n = len(differences)
    if n < 2:
        return None
    seen = abs(mean(differences)) * (1 - 1e-12)
    if 2**n <= _EXACT:
        signs = list(itertools.product((1, -1), repeat=n))
        return sum(
            abs(mean([sign * value for sign, value in zip(one, differences, strict=True)])) >= seen
            for one in signs
        ) / len(signs)
    random = Random(seed)
    found = sum(
        abs(mean([random.choice((1, -1)) * value for value in differences])) >= seen
        for _ in range(_EXACT)
    )
    return (found + 1) / (_EXACT + 1)


def permutation_p(first: Sequence[float], second: Sequence[float], seed: int = 0) -> float | None:
    """How often two groups drawn by chance from all values are as far apart: the test of groups
    without pairs, two-sided."""
    if len(first) < 2 or len(second) < 2:
        return None
    together, n = [*first, *second], len(first)
    total = math.fsum(together)

    def apart(chosen: Sequence[float]) -> float:
        part = math.fsum(chosen)
        return abs(part / n - (total - part) / (len(together) - n))

    seen = apart(first) * (1 - 1e-12)
    if math.comb(len(together), n) <= _EXACT:
        found = [apart(chosen) >= seen for chosen in itertools.combinations(together, n)]
        return sum(found) / len(found)
    random = Random(seed)
    return (sum(apart(random.sample(together, n)) >= seen for _ in range(_EXACT)) + 1) / (
        _EXACT + 1
    )
