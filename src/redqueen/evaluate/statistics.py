"""Intervals and tests: accuracy, pass@k, paired differences over items, and resampling over seeds.

Seeds are few, so tests over them assume no distribution and count exactly where they can. With
three seeds none can give a p below 0.25 (paired) or 0.1 (unpaired).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

_Z95 = 1.959964
_RESAMPLES = 4000
_EXACT = 20_000
"""Up to this many arrangements all are counted; of more, this many at random."""


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
    mean = math.fsum(scores) / len(scores)
    spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / max(len(scores) - 1, 1))
    half = _Z95 * spread / math.sqrt(len(scores))
    return mean, mean - half, mean + half


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
    low: float
    high: float
    better: int
    worse: int
    """Items on which it does better, or worse, than the other."""

    @property
    def p(self) -> float:
        """Exact sign test, two-sided."""
        n, fewer = self.better + self.worse, min(self.better, self.worse)
        if not n:
            return 1.0
        ways = sum(math.comb(n, count) for count in range(fewer + 1))
        return min(1.0, 2 * ways / float(2**n))

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} points [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"

    def to_json(self) -> dict[str, float | int | list[float]]:
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


def bootstrap(values: Sequence[float], seed: int = 0) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of the mean; None for a single value."""
    if len(values) < 2:
        return None
    n, rng = len(values), Random(seed)
    samples = (
        itertools.product(values, repeat=n)
        if n**n <= _RESAMPLES
        else (rng.choices(values, k=n) for _ in range(_RESAMPLES))
    )
    means = sorted(sum(sample) / n for sample in samples)
    return means[int(0.025 * len(means))], means[math.ceil(0.975 * len(means)) - 1]


def sign_flip_p(differences: Sequence[float], seed: int = 0) -> float | None:
    """Paired permutation test, two-sided: how often random signs give as large a mean."""
    n = len(differences)
    if n < 2:
        return None
    observed = abs(mean(differences)) * (1 - 1e-12)
    if 2**n <= _EXACT:
        count = sum(
            abs(mean([sign * value for sign, value in zip(signs, differences, strict=True)]))
            >= observed
            for signs in itertools.product((1, -1), repeat=n)
        )
        return count / float(2**n)
    rng = Random(seed)
    count = sum(
        abs(mean([rng.choice((1, -1)) * value for value in differences])) >= observed
        for _ in range(_EXACT)
    )
    return (count + 1) / (_EXACT + 1)


def permutation_p(first: Sequence[float], second: Sequence[float], seed: int = 0) -> float | None:
    """Unpaired permutation test, two-sided: how often random groups have as different means."""
    if len(first) < 2 or len(second) < 2:
        return None
    pooled, n = [*first, *second], len(first)
    total = math.fsum(pooled)

    def distance(group: Sequence[float]) -> float:
        part = math.fsum(group)
        return abs(part / n - (total - part) / (len(pooled) - n))

    observed = distance(first) * (1 - 1e-12)
    if math.comb(len(pooled), n) <= _EXACT:
        is_as_far = [distance(group) >= observed for group in itertools.combinations(pooled, n)]
        return sum(is_as_far) / len(is_as_far)
    rng = Random(seed)
    count = sum(distance(rng.sample(pooled, n)) >= observed for _ in range(_EXACT))
    return (count + 1) / (_EXACT + 1)
