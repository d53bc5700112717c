"""What is seen of a run while it goes: a line for each step, and on a terminal a bar for the phase within it."""

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from redqueen.run import Run
from redqueen.terminal import notes
from redqueen.turn import Turn


class StepProgress:
    """Writes to standard error; where that is a plain log, only the lines."""

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
        self.started, self.first = time.monotonic(), run.step

    def __enter__(self) -> Self:
        self.run.tools.tell = self.phase
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def phase(self, name: str, done: int, total: int) -> None:
        self.bar.update(self.task, description=f"step {self.run.step + 1}: {name}", completed=done, total=max(total, 1))

    def step(self, turns: list[Turn], seconds: float) -> None:
        for turn in turns:
            notes.print(self._line(turn, seconds))

    def _line(self, turn: Turn, seconds: float) -> str:
        figures, config = turn.metrics, self.run.config
        done = turn.step - self.first
        left = (time.monotonic() - self.started) / done * (config.steps - turn.step)
        tokens = figures.get("propose/tokens", 0) + figures.get("solve/tokens", 0)
        bounds = {role: [member.rating.mu for member in turn.world.members if member.role == role] for role in ("teacher", "student")}
        ratings = "  ".join(f"{role[0].upper()} {min(found):.0f}-{max(found):.0f}" for role, found in bounds.items() if found)
        parts = [
            f"step {turn.step:3}/{config.steps}",
            f"valid {_percent(figures.get('verify/valid_frac'))}",
            f"solved {_percent(figures.get('solve/pass_rate'))}",
            f"depth {figures.get('complexity/ast_depth', 0):4.1f}",
            f"branches {figures.get('complexity/cyclomatic', 0):4.1f}",
            f"executed {figures.get('complexity/steps_executed', 0):5.1f}",
            ratings,
            f"{tokens / seconds:,.0f} tok/s",
            f"{seconds:.1f} s",
            f"left {int(left) // 60}:{int(left) % 60:02}",
        ]
        return "  ".join(part for part in parts if part)


def _percent(value: float | None) -> str:
    return "   -" if value is None else f"{100 * value:3.0f}%"
