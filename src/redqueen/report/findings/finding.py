"""One finding, and what checks are written with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from redqueen.report.run_view import Line, mean, quarter_mean

Level = Literal["fact", "good", "warning"]
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    text: str
    section: str
    """Where in the report to look."""


Check = Callable[[Figures], Iterator[Finding]]


def fact(section: str, text: str) -> Finding:
    return Finding("fact", text, section)


def warning(section: str, text: str) -> Finding:
    return Finding("warning", text, section)


def metric(figures: Figures, name: str) -> Line:
    line: Line = figures["metrics"].get(name, [])
    return line


LEAST_STEPS = 8
"""In a shorter run members are still what they began as: the base."""


def quarter_means(line: Line) -> tuple[float, float] | None:
    """The means over the first and the last quarter; None where these are a step or two."""
    first, last = quarter_mean(line, "first"), quarter_mean(line, "last")
    return None if first is None or last is None or len(line) < LEAST_STEPS else (first, last)


def tail_mean(line: Line) -> float | None:
    """The mean over the last tenth, three points at least: what a quarter averages away."""
    return mean(line[-max(3, len(line) // 10) :]) if len(line) >= LEAST_STEPS else None


def keeps_up(first: float, last: float) -> bool:
    """Whether solve rates at the start and the end of a run are those of students that follow their
    teachers: it may fall to the middle, where most is learned, but not far below."""
    return last > first - 0.1 or last >= 0.4


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"
