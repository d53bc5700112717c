"""The ledger of a run: one SQLite file, one transaction a step, any number of readers beside one
writer.

It does not keep writers apart: whoever writes holds the run's `RunLock`. Values are stored as they
are, but for lists and dicts, which become JSON text, and lone surrogates, which become their
escapes.
"""

import contextlib
import hashlib
import sqlite3
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redqueen.errors import ConfigError, StorageError, unknown
from redqueen.ledger.durable import make_folder, sync
from redqueen.ledger.opening import FILE, SCHEMA, make_durable, open_to_read, open_to_write
from redqueen.ledger.tables import Table, schema_text, tables

__all__ = [
    "FILE",
    "MEASURED_LATER",
    "SCHEMA",
    "Ledger",
    "Rows",
    "about_of",
    "base_weights",
    "digest",
    "last_step",
    "reader",
    "refuse_what_is_there",
]

Rows = Sequence[Mapping[str, Any]]

_PAWN_BEFORE = "bfloat16:e84bf197b243a28e7e41e3bcd1097337"
"""The fingerprint of the Pawn that shipped before runs kept one."""
_NEW = ".run.sqlite.new"
_DIGESTED_ABOUT = (
    "schema",
    "config",
    "base",
)  # the other rows of `run` tell of a machine and a day
_UNDIGESTED = ("timings",)
MEASURED_LATER = "eval/"
"""Suites of this name in `evals` were measured by `redqueen eval`: whoever measures a run does not
change what it was."""


class Ledger:
    """The writer of one run."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self.about = about_of(connection)
        self._connection = connection
        self._tables = tables(connection)

    @classmethod
    def create(cls, folder: Path, about: Mapping[str, str], worlds: Rows) -> Self:
        """A new run in the folder, which is made if need be: whole, or nothing that looks like a
        run."""
        refuse_what_is_there(folder)
        try:
            make_folder(folder)
            _remove(folder / _NEW)
            _build(folder / _NEW, {**about, "schema": str(SCHEMA)}, worlds)
            sync(folder / _NEW)
            (folder / _NEW).rename(folder / FILE)
            sync(folder)
        except BaseException as error:
            with contextlib.suppress(OSError):
                _remove(folder / _NEW)
                _remove(folder / FILE)
            if isinstance(error, OSError | sqlite3.OperationalError):
                raise StorageError(
                    f"no run can be made in {folder}: {error}. Nothing was left there; free space, or choose another --out."
                ) from error
            raise
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The ledger of a run, to go on with it."""
        return cls(folder, open_to_write(folder))

    def write(self, step: int, rows: Mapping[str, Rows]) -> None:
        """Everything that a step leaves, and the mark that it is whole, in one transaction.

        Rows need not name their step. Steps come one after another, from 0.
        """
        last = self.last_step()
        if step != last + 1:
            there = "is in the ledger already" if step <= last else "leaves a gap"
            raise ValueError(f"step {step} {there}: the last whole step is {last}")
        batches = [
            (self._table(name), [self._of_step(name, row, step) for row in batch])
            for name, batch in rows.items()
        ]
        with self._transaction(f"step {step}"):
            for table, batch in batches:
                self._insert("INSERT", table, batch)
            self._connection.execute("INSERT INTO marks (step) VALUES (?)", (step,))

    def add(self, table: str, rows: Rows) -> None:
        """Rows outside a step, in one transaction. A row with the same key is replaced."""
        if table == "marks":
            raise ValueError("steps are marked by write() alone")
        with self._transaction(f"rows of {table}"):
            self._insert("INSERT OR REPLACE", self._table(table), rows)
        if table == "run":
            self.about = about_of(self._connection)

    def last_step(self) -> int:
        """The last whole step; -1 when there is none."""
        return last_step(self._connection)

    def truncate(self, step: int) -> None:
        """Take away everything after this step, in one transaction."""
        with self._transaction(f"going back to step {step}"):
            for table in self._tables.values():
                if table.of_steps:
                    self._connection.execute(f"DELETE FROM {table.name} WHERE step > ?", (step,))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            raise ValueError(unknown("table", name, self._tables))
        return self._tables[name]

    def _of_step(self, name: str, row: Mapping[str, Any], step: int) -> Mapping[str, Any]:
        if not self._table(name).of_steps or name == "marks":
            raise ValueError(f"rows of the table {name} are not written with a step")
        if row.get("step", step) != step:
            raise ValueError(
                f"a row of step {row['step']} of the table {name} among those of step {step}"
            )
        return {**row, "step": step}

    def _insert(self, verb: str, table: Table, rows: Rows) -> None:
        try:
            self._connection.executemany(table.insert(verb), map(table.values, rows))
        except (
            sqlite3.IntegrityError,
            sqlite3.ProgrammingError,
            sqlite3.InterfaceError,
            OverflowError,
        ) as error:
            error.add_note(f"in a row of the table {table.name}")
            raise

    @contextlib.contextmanager
    def _transaction(self, what: str) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise StorageError(
                    f"{what} could not be written to {self.folder / FILE}: {error}. Nothing of it was kept and everything before it is intact. "
                    f"Free space or mend the disk, then go on with: redqueen resume {self.folder}"
                ) from error
            raise


def reader(folder: Path) -> sqlite3.Connection:
    """A read-only connection that never blocks the writer.

    One SELECT sees whole steps only; several see the same steps between BEGIN and COMMIT.
    """
    connection = open_to_read(folder)
    connection.row_factory = sqlite3.Row
    return connection


def digest(folder: Path) -> str:
    """One sha256 over all records of a run, but for its timings, what tells of the machine, and
    what was measured later: equal for equal runs."""
    digest = hashlib.sha256()
    with contextlib.closing(reader(folder)) as connection:
        connection.row_factory = None
        connection.execute("BEGIN")  # all tables as of one step, also while the run goes on
        for table in tables(connection).values():
            if table.name in _UNDIGESTED:
                continue
            digest.update(_encoded((table.name, *table.columns)))
            for row in connection.execute(
                f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {', '.join(table.key)}"
            ):
                if not _is_beside_the_run(table.name, row):
                    digest.update(_encoded(row))
    return digest.hexdigest()


def about_of(connection: sqlite3.Connection) -> dict[str, str]:
    """What the whole run was made with, by name."""
    return dict(connection.execute("SELECT name, value FROM run ORDER BY name").fetchall())


def base_weights(about: Mapping[str, str]) -> str:
    """The fingerprint of the base that a run was made on; empty where it does not say.

    Fingerprints are as old as the Pawn that ships: a run on `pawn` that has none was made on the
    one before.
    """
    before = _PAWN_BEFORE if tomllib.loads(about["config"]).get("base") == "pawn" else ""
    return about.get("base_weights", before)


def last_step(connection: sqlite3.Connection) -> int:
    """The last whole step; -1 when there is none."""
    (step,) = connection.execute("SELECT coalesce(max(step), -1) FROM marks").fetchone()
    return int(step)


def _is_beside_the_run(table: str, row: Sequence[Any]) -> bool:
    """A row of `run` that another machine or day would change, a metric of time, which belongs to
    the timings, or a later measurement."""
    if table == "run":
        return row[0] not in _DIGESTED_ABOUT
    return (table == "metrics" and str(row[2]).startswith("time/")) or (
        table == "evals" and str(row[2]).startswith(MEASURED_LATER)
    )


def _encoded(row: Sequence[Any]) -> bytes:
    """A row as bytes that no other row has: every value with its type and length."""
    parts = [f"row {len(row)}\n".encode()]
    for value in row:
        content = value.encode() if isinstance(value, str) else repr(value).encode()
        parts += [f"{type(value).__name__} {len(content)} ".encode(), content, b"\n"]
    return b"".join(parts)


def refuse_what_is_there(folder: Path) -> None:
    """A folder with a run, or with what is left of one, is no place for a new one."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is no folder. Choose another one with --out.")
    if (folder / FILE).exists():
        raise ConfigError(
            f"there is a run in {folder} already. Choose another folder with --out, or go on with: redqueen resume {folder}"
        )
    remains = [f"{FILE}-wal"] if (folder / f"{FILE}-wal").exists() else []
    remains += [str(path.relative_to(folder)) for path in sorted(folder.glob("checkpoints/[0-9]*"))]
    if remains:  # a new run would mistake them for its own
        raise ConfigError(
            f"{folder} holds the rest of another run ({', '.join(remains[:3])}) but no {FILE}. Choose another folder with --out, or move it away."
        )


def _build(path: Path, about: Mapping[str, str], worlds: Rows) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_durable(connection)
        connection.executescript(f"BEGIN;\n{schema_text()}\nCOMMIT;")
        shapes = tables(connection)
        connection.execute("BEGIN")
        for name, rows in (
            ("run", [{"name": name, "value": value} for name, value in about.items()]),
            ("worlds", worlds),
        ):
            connection.executemany(shapes[name].insert("INSERT"), map(shapes[name].values, rows))
        connection.execute("COMMIT")


def _remove(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)
