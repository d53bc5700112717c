"""The ledger of a run: one SQLite file, one transaction per step, one writer and any number of
readers.

It does not keep writers apart: the writer holds the run's `RunLock`. Lists and dicts are stored as
JSON text, lone surrogates as their escapes, everything else as it is.
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
from redqueen.ledger.anywhere import without_placement
from redqueen.ledger.durable import make_folder, sync
from redqueen.ledger.opening import FILE, SCHEMA, make_durable, open_to_read, open_to_write
from redqueen.ledger.people import FILE as PEOPLE
from redqueen.ledger.tables import TableShape, schema_text, table_shapes

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
    "open_to_read",
    "refuse_what_is_there",
]

Rows = Sequence[Mapping[str, Any]]

_PAWN_BEFORE = "bfloat16:e84bf197b243a28e7e41e3bcd1097337"
"""The fingerprint of the Pawn that shipped before runs recorded one."""
_NEW = ".run.sqlite.new"
_OWN = ("checkpoints", "lock")
"""What a run that was killed while it was made may have left."""
_DIGESTED_ABOUT = ("schema", "config", "base")  # the rest of `run` describes a machine and a day
_NOT_DIGESTED = ("timings", "placements")
MEASURED_LATER = "eval/"
"""Prefix of suites in `evals` that `redqueen eval` measured: measuring a run does not change it."""


class Ledger:
    """Writes the records of one run."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self.about = about_of(connection)
        self._connection = connection
        self._tables = table_shapes()

    @classmethod
    def create(cls, folder: Path, about: Mapping[str, str], worlds: Rows) -> Self:
        """Start a new run in the folder; after a failure nothing there looks like a run."""
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
                    f"cannot create a run in {folder}: {error}. Nothing was left there; "
                    "free some space, or choose another --out."
                ) from error
            raise
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The ledger of an existing run, to continue it."""
        return cls(folder, open_to_write(folder))

    def write(self, step: int, rows: Mapping[str, Rows]) -> None:
        """Store the rows of a step and mark it complete, in one transaction.

        Rows need not name their step. Steps are consecutive, from 0.
        """
        last = self.last_step()
        if step != last + 1:
            why = "is already in the ledger" if step <= last else "leaves a gap"
            raise ValueError(f"step {step} {why}: the last complete step is {last}")
        batches = [
            (self._table(name), [self._with_step(name, row, step) for row in batch])
            for name, batch in rows.items()
        ]
        with self._transaction(f"step {step}"):
            for table, batch in batches:
                self._insert("INSERT", table, batch)
            self._connection.execute("INSERT INTO marks (step) VALUES (?)", (step,))

    def add(self, table: str, rows: Rows) -> None:
        """Store rows outside a step, in one transaction; a row with the same key is replaced."""
        self.add_tables({table: rows})

    def add_tables(self, tables: Mapping[str, Rows]) -> None:
        """Store rows of several tables, as `add` does, in one transaction."""
        if "marks" in tables:
            raise ValueError("only write() marks steps")
        batches = [(self._table(name), rows) for name, rows in tables.items() if rows]
        if not batches:
            return
        with self._transaction(f"rows of {', '.join(table.name for table, _ in batches)}"):
            for table, rows in batches:
                self._insert("INSERT OR REPLACE", table, rows)
        if "run" in tables:
            self.about = about_of(self._connection)

    def last_step(self) -> int:
        """The last complete step; -1 when there is none."""
        return last_step(self._connection)

    def truncate(self, step: int) -> None:
        """Delete everything after this step, in one transaction."""
        with self._transaction(f"the truncation to step {step}"):
            for table in self._tables.values():
                if table.has_steps:
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

    def _table(self, name: str) -> TableShape:
        if name not in self._tables:
            raise ValueError(unknown("table", name, self._tables))
        return self._tables[name]

    def _with_step(self, name: str, row: Mapping[str, Any], step: int) -> Mapping[str, Any]:
        if not self._table(name).has_steps or name == "marks":
            raise ValueError(f"rows of the table {name} do not belong to a step")
        if row.get("step", step) != step:
            raise ValueError(f"a row of step {row['step']} in the table {name} of step {step}")
        return {**row, "step": step}

    def _insert(self, verb: str, table: TableShape, rows: Rows) -> None:
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
                    f"{what} could not be written to {self.folder / FILE}: {error}. "
                    "Nothing of it was kept; everything before it is intact. "
                    "Free some space or repair the disk, then continue with: "
                    f"redqueen resume {self.folder}"
                ) from error
            raise


def digest(folder: Path) -> str:
    """One sha256 over all records of a run, equal for equal runs. Timings, facts about machines
    and later measurements are left out."""
    digest = hashlib.sha256()
    with contextlib.closing(open_to_read(folder)) as connection:
        connection.row_factory = None  # plain tuples
        connection.execute("BEGIN")  # all tables as of the same step, also during a run
        for table in table_shapes().values():
            if table.name in _NOT_DIGESTED:
                continue
            digest.update(_encode((table.name, *table.columns)))
            columns, key = ", ".join(table.columns), ", ".join(table.key)
            for row in connection.execute(f"SELECT {columns} FROM {table.name} ORDER BY {key}"):
                if _is_digested(table.name, row):
                    digest.update(_encode(without_placement(row)))
    return digest.hexdigest()


def about_of(connection: sqlite3.Connection) -> dict[str, str]:
    """Facts about the whole run, by name."""
    rows = connection.execute("SELECT name, value FROM run ORDER BY name").fetchall()
    return {str(name): str(value) for name, value in rows}


def base_weights(about: Mapping[str, str]) -> str:
    """The fingerprint of the base of a run; empty where it is not recorded.

    Runs on `pawn` without one are older than fingerprints, and were made on an earlier Pawn. Of a
    .gguf file 0.1 recorded a hash of the file, which says nothing about weights of another format.
    """
    if "base_weights" in about:
        return "" if about["base_weights"].startswith("file:") else about["base_weights"]
    return _PAWN_BEFORE if tomllib.loads(about["config"]).get("base") == "pawn" else ""


def last_step(connection: sqlite3.Connection) -> int:
    """The last complete step; -1 when there is none."""
    (step,) = connection.execute("SELECT coalesce(max(step), -1) FROM marks").fetchone()
    return int(step)


def _is_digested(table: str, row: Sequence[Any]) -> bool:
    """Not what differs by machine or day, nor later measurements."""
    if table == "run":
        return row[0] in _DIGESTED_ABOUT
    if table == "people":
        return bool(row[4] != "answer")
    prefix = {"metrics": "time/", "evals": MEASURED_LATER}.get(table)
    return prefix is None or not str(row[2]).startswith(prefix)


def _encode(row: Sequence[Any]) -> bytes:
    """Bytes that no other row has: every value with its type and length."""
    parts = [f"row {len(row)}\n".encode()]
    for value in row:
        content = value.encode() if isinstance(value, str) else repr(value).encode()
        parts += [f"{type(value).__name__} {len(content)} ".encode(), content, b"\n"]
    return b"".join(parts)


def refuse_what_is_there(folder: Path) -> None:
    """Fail where the folder has a run, or the remains of one."""
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise ConfigError(f"{place} is not a folder. Choose another one with --out.")
    if (folder / FILE).exists():
        raise ConfigError(
            f"{folder} already has a run. Choose another folder with --out, "
            f"or continue it with: redqueen resume {folder}"
        )
    remains = [name for name in (f"{FILE}-wal", PEOPLE) if (folder / name).exists()]
    remains += [str(path.relative_to(folder)) for path in sorted(folder.glob("checkpoints/[0-9]*"))]
    if remains:  # a new run would mistake them for its own
        raise ConfigError(
            f"{folder} has the remains of another run ({', '.join(remains[:3])}) but no {FILE}. "
            "Choose another folder with --out, or move them away."
        )
    others = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    others = [name for name in others if name not in _OWN and not name.startswith(".")]
    if others:
        raise ConfigError(
            f"{folder} has other files ({', '.join(others[:3])}). Choose a new folder, or an empty "
            "one, with --out."
        )


def _build(path: Path, about: Mapping[str, str], worlds: Rows) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_durable(connection)
        connection.executescript(f"BEGIN;\n{schema_text()}\nCOMMIT;")
        shapes = table_shapes()
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
