"""Figures of a run for papers, drawn by matplotlib (the extra `plot`): PDF, SVG or PNG, by the name
of the file."""

import importlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from redqueen.errors import ConfigError, explain_disk, unknown
from redqueen.report.gather import gather_runs
from redqueen.report.run_view import Run

_FORMATS = (".pdf", ".svg", ".png")
_TEACHER, _STUDENT, _OTHER = "#c8324a", "#2a78b8", "#7d8590"
_DIFFICULTY = {
    "zero-pass": "#7b2d3b",
    "hard": "#c8324a",
    "medium": "#d9a13b",
    "easy": "#5aa9a0",
    "all-pass": "#9fb3c4",
}
"""As on the page."""
View = dict[str, Any]
"""What a report shows of a world."""


def plot(run: Run, figure: str, out: str | Path, world: int = 0) -> Path:
    """Draw one of `FIGURES`; returns the file."""
    path = Path(out)
    if figure not in FIGURES:
        raise ConfigError(unknown("figure", figure, FIGURES))
    if path.suffix not in _FORMATS:
        raise ConfigError(f"--out {path}: the name ends in one of {', '.join(_FORMATS)}")
    pyplot = _matplotlib()
    views = gather_runs([run], max_chars=0)
    if not 0 <= world < len(views):
        raise ConfigError(f"there is no world {world}: this run has {len(views)}, from 0")
    view = views[world]
    if view["steps_done"] < 1:
        raise ConfigError(f"{view['name']} has no steps yet: there is nothing to draw")
    drawn, content = FIGURES[figure](pyplot, view), io.BytesIO()
    drawn.savefig(content, format=path.suffix[1:], bbox_inches="tight", dpi=200)
    pyplot.close(drawn)
    with explain_disk(path):  # matplotlib's own writer hides a full disk in an error of its own
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.getvalue())
    return path


def _matplotlib() -> Any:
    try:
        importlib.import_module("matplotlib").use("Agg")
    except ImportError as error:
        raise ConfigError("plots need matplotlib: pip install 'redqueen[plot]'") from error
    return importlib.import_module("matplotlib.pyplot")


def _axes(pyplot: Any, labels: Sequence[str]) -> tuple[Any, list[Any]]:
    """Panels side by side, with the steps below."""
    drawn, axes = pyplot.subplots(1, len(labels), figsize=(3.4 * len(labels), 2.6), squeeze=False)
    for ax, label in zip(axes[0], labels, strict=True):
        ax.set_xlabel("step")
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    return drawn, list(axes[0])


def _line(ax: Any, view: View, line: Sequence[float | None] | None, name: str, color: str) -> None:
    points = [
        (step, value)
        for step, value in zip(view["steps"], line or (), strict=False)
        if value is not None
    ]
    if points:
        ax.plot(*zip(*points, strict=True), color=color, label=name, linewidth=1.4)


def _race(pyplot: Any, view: View) -> Any:
    drawn, (solved, harder) = _axes(pyplot, ["solve rate", "complexity, relative"])
    _line(solved, view, view["metrics"].get("solve/pass_rate"), "students", _STUDENT)
    _line(harder, view, view["complexity_index"], "problems", _TEACHER)
    solved.set_ylim(0, 1)
    drawn.tight_layout()
    return drawn


def _rewards(pyplot: Any, view: View) -> Any:
    drawn, (ax,) = _axes(pyplot, ["mean reward"])
    _line(ax, view, view["metrics"].get("reward/teacher"), "teachers", _TEACHER)
    _line(ax, view, view["metrics"].get("reward/student"), "students", _STUDENT)
    ax.legend(frameon=False)
    return drawn


def _difficulty(pyplot: Any, view: View) -> Any:
    drawn, (ax,) = _axes(pyplot, ["share of problems"])
    shares = {
        name: [value or 0.0 for value in line]
        for name, line in view["difficulty"].items()
        if isinstance(line, list)
    }
    colors = [_DIFFICULTY[name] for name in shares]
    ax.stackplot(view["steps"], *shares.values(), labels=list(shares), colors=colors)
    ax.set_ylim(0, 1)
    ax.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn


def _scores(pyplot: Any, view: View) -> Any:
    """Points over the base, with 95 % intervals over items."""
    gains = [
        (f"{suite['suite']}: {subject['subject']}", subject["gain"])
        for suite in view["suites"]
        for subject in (*suite["products"], *suite["subjects"])
        if subject["gain"] is not None
    ]
    if not gains:
        raise ConfigError(f"{view['name']} was not measured against its base: there is no score")
    drawn, ax = pyplot.subplots(figsize=(4.2, 0.5 + 0.28 * len(gains)))
    for place, (_, (middle, low, high)) in enumerate(gains):
        ends = [[100 * (middle - low)], [100 * (high - middle)]]
        ax.errorbar(100 * middle, place, xerr=ends, fmt="o", color=_STUDENT, markersize=4)
    ax.axvline(0, color=_OTHER, linewidth=0.8)
    ax.set_yticks(range(len(gains)), [name for name, _ in gains], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlabel("points over the base, 95 % interval")
    return drawn


FIGURES: dict[str, Callable[[Any, View], Any]] = {
    "race": _race,
    "rewards": _rewards,
    "difficulty": _difficulty,
    "scores": _scores,
}
