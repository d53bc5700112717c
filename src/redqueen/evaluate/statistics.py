"""Intervals and tests: accuracy, pass@k, paired differences over items, and Student's t over seeds.

Seeds are few: their intervals have n - 1 degrees of freedom, and a test over them says what its
interval says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Accuracy:
    correct: float
    """An item with several attempts counts by the share that is correct."""
    n: int

    @property
    def value(self) -> float:
        return self.correct / self.n if self.n else math.nan

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval: it also holds near 0 and 1, where the normal one does not."""
        if not self.n:
            return 0.0, 1.0
        share, square = self.value, _Z95**2
        center = (share + square / (2 * self.n)) / (1 + square / self.n)
        half = (
            _Z95
            / (1 + square / self.n)
            * math.sqrt(share * (1 - share) / self.n + square / (4 * self.n**2))
        )
        low = center - half if self.correct else 0.0
        return low, center + half if self.correct < self.n else 1.0

    def to_json(self) -> dict[str, float | int | list[float] | None]:
        return {
            "accuracy": round(self.value, 4) if self.n else None,
            "n": self.n,
            "interval": [round(end, 4) for end in self.interval()],
        }


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """The unbiased estimate that one of k attempts is correct, from `samples` attempts of which
    `correct` were (Chen et al. 2021)."""
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} cannot be estimated from {samples} samples")
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def mean_interval(scores: Sequence[float]) -> tuple[float, float, float]:
    """The mean over items and its 95 % interval, by the spread between items."""
    center = mean(scores)
    return center, *(t_interval(scores) or (center, center))


def score_interval(scores: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean over items: by their spread, or Wilson's where each is correct or
    wrong as a whole, or all are alike."""
    if all(score in (0.0, 1.0) for score in scores) or len(set(scores)) == 1:
        return Accuracy(math.fsum(scores), len(scores)).interval()
    _, low, high = mean_interval(scores)
    return max(low, 0.0), min(high, 1.0)


@dataclass(frozen=True, slots=True)
class Difference:
    """One model against another on the same items, compared item by item."""

    mean: float
    """Of the scores, from -1 to 1."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    better: int
    """Items on which it does better than the other."""
    worse: int
    """Items on which it does worse."""

    @property
    def p(self) -> float:
        """Exact sign test, two-sided."""
        n, fewer = self.better + self.worse, min(self.better, self.worse)
        if not n:
            return 1.0
        ways = sum(math.comb(n, count) for count in range(fewer + 1))
        return min(1.0, 2 * ways / (1 << n))  # of whole numbers: no float holds 2 ** 1024

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} points [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"

    def to_json(self) -> dict[str, float | int | list[float]]:
        """All of it, rounded to four digits."""
        interval = [round(self.low, 4), round(self.high, 4)]
        return {
            "difference": round(self.mean, 4),
            "interval": interval,
            "better": self.better,
            "worse": self.worse,
            "p": round(self.p, 4),
        }


def paired_difference(scores: Sequence[float], others: Sequence[float]) -> Difference:
    gaps = [score - other for score, other in zip(scores, others, strict=True)]
    return Difference(
        *mean_interval(gaps), sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    )


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def t_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of a mean over seeds, by Student's t; None for a single value. Unlike a
    bootstrap, which covers 76 % with three seeds, it holds for few values."""
    if len(values) < 2:
        return None
    center, half = mean(values), t_quantile(len(values) - 1) * _standard_error(values)
    return center - half, center + half


def t_p(values: Sequence[float]) -> float | None:
    """Two-sided t test that the mean is zero: below 0.05 where `t_interval` leaves zero out."""
    if len(values) < 2:
        return None
    return _t_tail(mean(values), _standard_error(values), len(values) - 1)


def welch_difference(
    first: Sequence[float], second: Sequence[float]
) -> tuple[tuple[float, float], float] | None:
    """The 95 % interval of the difference of two means that are not paired, and its p: Welch's t,
    which takes no spread for equal. None where a side is a single value."""
    if len(first) < 2 or len(second) < 2:
        return None
    error, freedom = _welch_error(first, second)
    gap, half = mean(first) - mean(second), t_quantile(freedom) * error
    return (gap - half, gap + half), _t_tail(gap, error, freedom)


def welch_detectable(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The difference that such a comparison finds in 80 % of the cases, by the spread that the
    values have: what it can say nothing about is below. None where a side is a single value."""
    if len(first) < 2 or len(second) < 2:
        return None
    error, freedom = _welch_error(first, second)
    return (t_quantile(freedom) + t_quantile(freedom, 0.6)) * error


def _welch_error(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """The standard error of the difference, and its degrees of freedom."""
    one, other = _standard_error(first) ** 2, _standard_error(second) ** 2
    ways = one**2 / (len(first) - 1) + other**2 / (len(second) - 1)
    freedom = (one + other) ** 2 / ways if ways else float(len(first) + len(second) - 2)
    return math.sqrt(one + other), freedom


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given: declaring all below 0.05 is wrong about one of
    them or more in at most 5 % of the cases."""
    adjusted, least = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = least
    return adjusted


@cache
def t_quantile(freedom: float, level: float = 0.95) -> float:
    """How many standard errors an interval of this level reaches to either side."""
    low, high = 0.0, 1.0
    while t_tail(high, freedom) > 1 - level:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > 1 - level else (low, middle)
    return (low + high) / 2


def t_tail(t: float, freedom: float) -> float:
    """The chance that Student's t is at least as far from zero, to either side."""
    return _beta_share(freedom / (freedom + t * t), freedom / 2, 0.5)


def _t_tail(gap: float, error: float, freedom: float) -> float:
    if error == 0:
        return 1.0 if gap == 0 else 0.0
    return t_tail(gap / error, freedom)


def _standard_error(values: Sequence[float]) -> float:
    center = mean(values)
    squares = math.fsum((value - center) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1) / len(values))


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1 - _beta_share(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction, step = d, 0
    while True:
        step += 1
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            c, d = 1 + term / c, 1 / (1 + term * d)
            fraction *= c * d
        if abs(c * d - 1) < 1e-15 or step > 10_000:
            return front * fraction / a
