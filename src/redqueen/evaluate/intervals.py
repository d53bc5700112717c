"""Accuracy with its confidence interval."""

import math
from dataclasses import dataclass

_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Accuracy:
    right: int
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
        half = _Z95 / (1 + square / self.n) * math.sqrt(share * (1 - share) / self.n + square / (4 * self.n**2))
        return middle - half if self.right else 0.0, middle + half if self.right < self.n else 1.0

    def as_json(self) -> dict[str, float | int | list[float] | None]:
        return {"accuracy": round(self.value, 4) if self.n else None, "n": self.n, "interval": [round(end, 4) for end in self.interval()]}
