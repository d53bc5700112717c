"""A side of a report: one world of one run, as its ledger has it now, with its steps gathered into
windows that a chart can show."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from redqueen.ledger.store import about_of, last_step

MOST_WINDOWS = 240
"""Points of a line: more than a screen shows, fewer than a browser minds."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The steps from 1 to `last`, in windows of one size; the last one may be shorter."""

    last: int
    most: int = MOST_WINDOWS

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

    def line(self) -> list[None]:
        """A line with a gap at every window."""
        return [None] * self.count

    @property
    def sql(self) -> str:
        """The number of a row's window, from 0."""
        return f"((step - 1) / {self.size})"


class Side:
    """One world of one run. Its queries see what is there when it is made, if the caller holds a
    transaction."""

    def __init__(self, connection: sqlite3.Connection, folder: Path, world: int) -> None:
        self.connection, self.folder, self.world = connection, folder, world
        self.about = about_of(connection)
        self.last = max(last_step(connection), 0)
        self.windows = Windows(self.last)
        row = self.row("SELECT arm, seed, config FROM worlds WHERE world = :world")
        self.arm, self.seed = str(row["arm"]), int(row["seed"])
        self.config: dict[str, Any] = json.loads(row["config"])

    @property
    def name(self) -> str:
        """Such as `runs/quick`, and in a study its arm and seed as well."""
        run = self.folder.resolve().name
        return run if self.arm == "run" else f"{run}: {self.arm}, seed {self.seed}"

    def rows(self, query: str, **values: Any) -> list[sqlite3.Row]:
        """What a SELECT with `:world` finds."""
        return self.connection.execute(query, {"world": self.world, **values}).fetchall()

    def row(self, query: str, **values: Any) -> sqlite3.Row:
        found: sqlite3.Row = self.connection.execute(
            query, {"world": self.world, **values}
        ).fetchone()
        return found

    @cached_property
    def slots(self) -> dict[str, int]:
        """By member: its place, which a child takes over from the member it replaces."""
        return {
            row["member"]: row["slot"]
            for row in self.rows("SELECT member, slot FROM births WHERE world = :world")
        }

    @cached_property
    def teachers(self) -> frozenset[str]:
        """All members that only ever posed problems."""
        return frozenset(
            row["member"]
            for row in self.rows(
                "SELECT member FROM births WHERE world = :world AND role = 'teacher'"
            )
        )

    @cached_property
    def places(self) -> dict[str, str]:
        """By member: the name of its place, such as T2 for T2, T2.10 and T2.30."""
        return {member: member.partition(".")[0] for member in self.slots}

    def setting(self, path: str, default: Any = None) -> Any:
        """One of the world's settings, such as `evolve.every`."""
        found: Any = self.config
        for name in path.split("."):
            if not isinstance(found, dict) or name not in found:
                return default
            found = found[name]
        return found


def sides(connection: sqlite3.Connection, folder: Path) -> list[Side]:
    """All worlds of a run."""
    return [
        Side(connection, folder, world)
        for (world,) in connection.execute("SELECT world FROM worlds ORDER BY world")
    ]


def rounded(value: float | None, digits: int = 5) -> float | int | None:
    """A number in as few characters as a chart needs."""
    if value is None:
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def mean(values: Sequence[float | None]) -> float | None:
    """Of those that are there."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def quarter(values: Sequence[float | None], which: str) -> float | None:
    """The mean over the first or the last quarter of a line."""
    size = max(1, len(values) // 4)
    return mean(values[:size] if which == "first" else values[-size:])
