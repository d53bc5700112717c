"""The runs in a folder: a short summary of each, and a place for another."""

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from redqueen.errors import RedQueenError, StorageError
from redqueen.ledger.durable import make_folder
from redqueen.ledger.lock import is_held
from redqueen.ledger.packed import is_packed
from redqueen.ledger.store import FILE, about_of, last_step, open_to_read


@dataclass(frozen=True)
class RunSummary:
    """One line of a list of runs. If the ledger cannot be read, only `folder`, `active` and
    `problem` are set."""

    folder: Path
    active: bool
    """Whether a process is playing it now."""
    steps_done: int = 0
    steps_wanted: int | None = None
    base: str = ""
    created: str = ""
    ended: str = ""
    """Why it ended; empty if it can be resumed."""
    problem: str = ""
    """Why the ledger cannot be read; empty if it can."""
    packed: bool = False
    """Whether it is a packed ledger: to be read only."""
    measured: bool = True
    """Whether there is what it was to measure at its end."""


_MEASURED = """SELECT count(*) FROM worlds WHERE world = 0 AND (
    coalesce(config ->> '$.evaluate.suite', '') = '' OR EXISTS (SELECT 1 FROM evals
        WHERE step = ? AND subject = 'base' AND suite = config ->> '$.evaluate.suite'))"""


def list_runs(root: Path) -> list[RunSummary]:
    """The runs in the subfolders of `root`, or `root` itself if it is one, and packed ledgers
    there; oldest first."""
    places = [root, *sorted(root.iterdir())] if root.is_dir() else []
    runs = [_summary(place) for place in places if (place / FILE).is_file() or is_packed(place)]
    return sorted(runs, key=lambda run: run.created)


def _summary(folder: Path) -> RunSummary:
    active = is_held(folder)
    try:
        with contextlib.closing(open_to_read(folder)) as connection:
            about = about_of(connection)
            done = max(last_step(connection), 0)
            measured = connection.execute(_MEASURED, (done,)).fetchone()[0] != 0
    except (RedQueenError, sqlite3.Error) as error:
        return RunSummary(folder, active, problem=str(error))
    wanted = about.get("steps", "")
    return RunSummary(
        folder,
        active,
        done,
        int(wanted) if wanted.isdecimal() else None,
        about.get("base", ""),
        about.get("created", ""),
        about.get("ended", ""),
        packed=is_packed(folder),
        measured=measured,
    )


def new_folder(root: Path, name: str) -> Path:
    """A folder of its own for a run without a name: runs/NAME-1, -2, ... It is made at once, so
    that two runs never choose the same one."""
    number = 1
    try:
        make_folder(root)
        while True:
            folder = root / f"{name}-{number}"
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
            number += 1
    except OSError as error:
        raise StorageError(
            f"no run can be made in {root}: {error}. Choose another folder with --out."
        ) from error


def free_folder(beside: Path) -> Path:
    """A name that is not taken, for a fork of the run in a folder: NAME-fork-1, -2, ..."""
    number = 1
    while (place := beside.with_name(f"{beside.name}-fork-{number}")).exists():
        number += 1
    return place
