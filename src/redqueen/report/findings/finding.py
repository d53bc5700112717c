"""One finding, and what checks are written with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from redqueen.report.run_view import Line, quarter_mean

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


def quarter_means(line: Line) -> tuple[float, float] | None:
    """The means over the first and the last quarter."""
    first, last = quarter_mean(line, "first"), quarter_mean(line, "last")
    return None if first is None or last is None else (first, last)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"
