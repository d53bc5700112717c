"""Accuracy with its confidence interval, pass@k, and the difference of two on the same items."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Accuracy:
    right: float
    """Of an item with several attempts, the share that is right."""
    n: int

    @property
    def value(self) -> float:
        return self.right / self.n if self.n else math.nan

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval: it holds near 0 and 1 too, where the plain one does not."""
        if not self.n:
            return 0.0, 1.0
        share, square = self.value, _Z95**2
        middle = (share + square / (2 * self.n)) / (1 + square / self.n)
        half = (
            _Z95
            / (1 + square / self.n)
            * math.sqrt(share * (1 - share) / self.n + square / (4 * self.n**2))
        )
        return middle - half if self.right else 0.0, middle + half if self.right < self.n else 1.0

    def as_json(self) -> dict[str, float | int | list[float] | None]:
        return {
            "accuracy": round(self.value, 4) if self.n else None,
            "n": self.n,
            "interval": [round(end, 4) for end in self.interval()],
        }


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The chance that one of k attempts is right, estimated without bias from `samples` attempts of
    which `right` were."""
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} cannot be estimated from {samples} samples")
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


def mean_interval(scores: Sequence[float]) -> tuple[float, float, float]:
    """The mean over items and its 95 % interval, by the spread between items."""
    mean = math.fsum(scores) / len(scores)
    spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / max(len(scores) - 1, 1))
    half = _Z95 * spread / math.sqrt(len(scores))
    return mean, mean - half, mean + half


@dataclass(frozen=True, slots=True)
class Difference:
    """One against another on the same items: items count in pairs, so what both find easy or hard
    says nothing."""

    mean: float
    low: float
    high: float
    better: int
    worse: int
    """Items on which it did better, or worse, than the other."""

    @property
    def p(self) -> float:
        """How likely so uneven a count is by chance (exact sign test, two-sided)."""
        n, least = self.better + self.worse, min(self.better, self.worse)
        return (
            min(1.0, 2 * sum(math.comb(n, count) for count in range(least + 1)) / 2**n)
            if n
            else 1.0
        )

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} points [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"

    def as_json(self) -> dict[str, float | int | list[float]]:
        interval = [round(self.low, 4), round(self.high, 4)]
        return {
            "difference": round(self.mean, 4),
            "interval": interval,
            "better": self.better,
            "worse": self.worse,
            "p": round(self.p, 4),
        }


def paired(scores: Sequence[float], others: Sequence[float]) -> Difference:
    gaps = [score - other for score, other in zip(scores, others, strict=True)]
    return Difference(
        *mean_interval(gaps), sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    )
