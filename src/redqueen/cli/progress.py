"""The progress of a run: a line per step, and on a terminal a bar for the current phase."""

import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from redqueen.cli.console import note, notes
from redqueen.core.run import Run
from redqueen.core.state import StepState

_COLUMNS = {
    "step": 8,
    "valid": 6,
    "solved": 6,
    "depth": 5,
    "branch": 6,
    "lines": 5,
    "teachers": 8,
    "students": 8,
    "tok/s": 6,
    "s": 5,
    "left": 6,
}
"""Names and widths, 79 characters in total. `lines` are lines executed; `teachers` and `students`
are their lowest and highest rating."""
_LEGEND = (
    "valid: proposals that became problems. solved: correct attempts at them.\n"
    "depth, branch, lines: of their programs, lines as executed.\n"
    "teachers, students: lowest..highest rating. left: minutes:seconds."
)
_HEADING_EVERY = 20
_RECENT_STEPS = 8


class StepProgress:
    """Writes to standard error; only the lines if that is not a terminal."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.bar = Progress(
            TextColumn("{task.description:24}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            console=notes,
            transient=True,
            disable=not notes.is_terminal,
        )
        self.task = self.bar.add_task("", total=1)
        self.first = run.step
        self.ends = deque([time.monotonic()], _RECENT_STEPS + 1)

    def __enter__(self) -> Self:
        self.run.ports.on_progress = self.phase
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def phase(self, name: str, done: int, total: int) -> None:
        self.bar.update(
            self.task,
            description=f"step {self.run.step + 1}: {name}",
            completed=done,
            total=max(total, 1),
        )

    def step(self, states: Sequence[StepState], seconds: float) -> None:
        done = self.run.step - self.first
        if done == 1:
            note(_LEGEND, "dim")
        if done % _HEADING_EVERY == 1:
            note(_row(dict(zip(_COLUMNS, _COLUMNS, strict=True))))
        self.ends.append(time.monotonic())
        left = int(seconds_left(self.ends, self.run.config.steps - self.run.step))
        for state in states:
            where = f"  {state.world.arm}, seed {state.world.seed}" if len(states) > 1 else ""
            note(_row(_cells(state, seconds)) + f" {left // 60:3}:{left % 60:02}{where}")
        for line in _workers(states[0].metrics):
            note(line)


def seconds_left(ends: Sequence[float], steps: int) -> float:
    """For so many steps, by the recent ones alone: the first is slow, and texts grow or shrink
    over a run. `ends` are the times at which steps ended, and before them that of the start. The
    time between steps counts too: measurements are made there."""
    return (ends[-1] - ends[0]) / (len(ends) - 1) * steps


def _cells(state: StepState, seconds: float) -> dict[str, str]:
    """The columns, except for the time left."""
    metrics = state.metrics
    tokens = metrics.get("propose/tokens", 0) + metrics.get("solve/tokens", 0)
    return {
        "step": f"{state.step}/{state.world.config.steps}",
        "valid": _format(metrics.get("verify/valid_frac"), 100, "%"),
        "solved": _format(metrics.get("solve/pass_rate"), 100, "%"),
        "depth": _format(metrics.get("complexity/ast_depth")),
        "branch": _format(metrics.get("complexity/cyclomatic")),
        "lines": _format(metrics.get("complexity/steps_executed")),
        "teachers": _ratings(state, "teacher"),
        "students": _ratings(state, "student"),
        "tok/s": f"{tokens / seconds:,.0f}",
        "s": f"{seconds:.1f}",
    }


def _workers(metrics: dict[str, float]) -> list[str]:
    """What each worker did in the step, where there are several."""
    count = sum(name.startswith("time/worker/") for name in metrics if name.endswith("/restarts"))
    if count < 2:
        return []
    lines = []
    for number in range(count):
        own = {
            name.rpartition("/")[2]: value
            for name, value in metrics.items()
            if name.startswith(f"time/worker/{number}/")
        }
        lines.append(
            f"  worker {number}: {own.get('sampled_per_s', 0):,.0f} tok/s sampled, "
            f"{own.get('trained_per_s', 0):,.0f} trained, {own.get('fill', 0):.0%} full, "
            f"{own.get('memory_gb', 0):.1f} GB, {own['restarts']:.0f} restarts"
        )
    return lines


def _row(cells: dict[str, str]) -> str:
    return " ".join(f"{text:>{_COLUMNS[name]}}" for name, text in cells.items())


def _ratings(state: StepState, role: str) -> str:
    ratings = [member.rating.mu for member in state.world.members if member.role == role]
    if not ratings or not state.world.config.is_rated:
        return "-"
    return f"{min(ratings):.0f}..{max(ratings):.0f}"


def _format(value: float | None, scale: float = 1, unit: str = "") -> str:
    if value is None:
        return "-"
    return f"{scale * value:.0f}{unit}" if unit else f"{value:.1f}"
