"""One world of one run as the report sees it, with its steps grouped into windows for charts."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from redqueen.ledger.run_reader import RunReader, WorldInfo, open_run

MAX_WINDOWS = 240
"""Points of a line: more than a screen resolves, few enough for a browser."""
Line = list[float | None]
"""A value per window; None where there is none."""


class HasFolder(Protocol):
    """A run that is being played, such as `redqueen.Run`."""

    @property
    def folder(self) -> Path: ...


Run = RunReader | HasFolder | str | Path
"""Whatever names a run."""


def folder_of(run: Run) -> Path:
    return Path(run) if isinstance(run, str | Path) else run.folder


@dataclass(frozen=True, slots=True)
class Windows:
    """The steps from 1 to `last` in windows of equal size; the last one may be shorter."""

    last: int
    most: int = MAX_WINDOWS

    @property
    def size(self) -> int:
        return max(1, -(-self.last // self.most))

    @property
    def count(self) -> int:
        return -(-self.last // self.size)

    @property
    def ends(self) -> list[int]:
        """The last step of each window."""
        return [min(self.last, (number + 1) * self.size) for number in range(self.count)]

    def empty_line(self) -> Line:
        return [None] * self.count

    @property
    def sql(self) -> str:
        """The number of a row's window, from 0."""
        return f"((step - 1) / {self.size})"


class RunView:
    """One world of one run."""

    def __init__(self, run: RunReader, world: WorldInfo) -> None:
        self.run, self.folder = run, run.folder
        self.world, self.arm, self.seed = world.number, world.arm, world.seed
        self.settings = world.settings
        self.about, self.last = run.about, run.steps
        self.windows = Windows(self.last)

    @property
    def name(self) -> str:
        """The folder's name, and in a study the arm and the seed."""
        folder = self.folder.resolve().name
        return folder if self.arm == "run" else f"{folder}: {self.arm}, seed {self.seed}"

    def rows(self, query: str, **values: Any) -> list[sqlite3.Row]:
        """The result of a SELECT that may name `:world`."""
        return self.run.connection.execute(query, {"world": self.world, **values}).fetchall()

    def row(self, query: str, **values: Any) -> sqlite3.Row:
        return self.rows(query, **values)[0]

    @cached_property
    def teachers(self) -> frozenset[str]:
        """All members that only ever proposed problems."""
        births = self.rows("SELECT member FROM births WHERE world = :world AND role = 'teacher'")
        return frozenset(row["member"] for row in births)

    def setting(self, path: str, default: Any = None) -> Any:
        """One of the world's settings by path, such as `evolve.every`."""
        value: Any = self.settings
        for name in path.split("."):
            if not isinstance(value, dict) or name not in value:
                return default
            value = value[name]
        return value


@contextmanager
def open_views(runs: Sequence[Run]) -> Iterator[list[RunView]]:
    """All worlds of these runs. A run is seen as of one step, also while it is being played."""
    with ExitStack() as stack:
        views = []
        for run in runs:
            if isinstance(run, RunReader):
                opened = run
            else:
                opened = stack.enter_context(open_run(folder_of(run)))
            stack.enter_context(opened.snapshot())
            views += [RunView(opened, world) for world in opened.worlds]
        yield views


def slot_name(member: str) -> str:
    """T2 for T2, T2.10 and T2.30: a child takes the slot of the member it replaces."""
    return member.partition(".")[0]


def round_digits(value: float | None, digits: int = 5) -> float | int | None:
    """To so many significant digits, as few characters as a chart needs."""
    if value is None:
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def mean(values: Sequence[float | None]) -> float | None:
    """Of the values that are not None."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def quarter_mean(line: Sequence[float | None], which: Literal["first", "last"]) -> float | None:
    size = max(1, len(line) // 4)
    return mean(line[:size] if which == "first" else line[-size:])
