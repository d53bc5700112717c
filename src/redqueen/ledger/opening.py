"""Opens a ledger's file to write or to read, and explains what is wrong with it."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from redqueen.errors import ConfigError, StorageError
from redqueen.ledger.packed import connect_packed, is_packed
from redqueen.ledger.tables import table_shapes

SCHEMA = 5
_READABLE = ("1", "2", "3", "4")
"""Older schemas, which are shown as the current one."""
FILE = "run.sqlite"

_TRIGGERS = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
_BUSY_S = 60.0  # only recovery after a kill holds the file, and for far less
_NOT_A_LEDGER = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB)  # no such table, no database at all
_NO_WAL = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
)  # a read-only folder, a full disk


def open_to_write(folder: Path) -> sqlite3.Connection:
    """A connection to an intact ledger of the current schema; any other file is left as it is."""
    with _explain(folder), _close_on_error(_connect(folder, "mode=rw")) as connection:
        _check_schema(folder, connection, to_write=True)
        (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise _damaged(folder, " ".join(result.split()))
        make_durable(connection)
        return connection


def open_to_read(folder: Path) -> sqlite3.Connection:
    """A read-only connection that never blocks the writer, with rows by column name.

    A SELECT sees complete steps only; several between BEGIN and COMMIT see the same steps. A run of
    an older version is shown in the current schema. Instead of a folder it may be a packed ledger.
    """
    with _explain(folder):
        if is_packed(folder):
            return _open_packed(folder)
        try:
            return _open_readable(folder, "mode=ro")
        except sqlite3.OperationalError as error:
            # SQLite needs a write-ahead log beside the file. Where it cannot make one and there is
            # none, nobody is writing, and the file can be read by itself.
            if _primary_code(error) not in _NO_WAL or _has_wal(folder):
                raise
            return _open_readable(folder, "immutable=1")


def check_resumable(folder: Path) -> None:
    """Fail where the run was made by an older version: it can be read, but not continued."""
    with _explain(folder), contextlib.closing(_connect(folder, "mode=ro")) as connection:
        _check_schema(folder, connection, to_write=True)


def make_durable(connection: sqlite3.Connection) -> None:
    """Commits reach the disk, and readers and the writer do not block each other."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError(
            "this file system does not support a write-ahead log; use a folder on a local disk"
        )
    connection.execute("PRAGMA synchronous = FULL")


def _open_readable(folder: Path, options: str) -> sqlite3.Connection:
    with _close_on_error(_connect(folder, options)) as connection:
        schema = _check_schema(folder, connection, to_write=False)
        _check_size(folder)
        return _show_current(connection, schema)


def _open_packed(file: Path) -> sqlite3.Connection:
    with _close_on_error(connect_packed(file)) as connection:
        schema = _check_schema(file, connection, to_write=False)
        _show_current(connection, schema).execute("PRAGMA query_only = 1")
        return connection


def _show_current(connection: sqlite3.Connection, schema: int) -> sqlite3.Connection:
    if schema < SCHEMA:
        from redqueen.ledger.migration import shadow_older

        shadow_older(connection, schema)
    connection.row_factory = sqlite3.Row
    return connection


def _check_size(folder: Path) -> None:
    """SQLite notices whole pages that are missing, but reads zeros where the last one is cut. While
    there is a write-ahead log, its header is ahead of the file."""
    path = folder / FILE
    with path.open("rb") as file:
        header = file.read(100)
    pages, page = int.from_bytes(header[28:32]), int.from_bytes(header[16:18])
    size = path.stat().st_size
    if size < pages * page and not _has_wal(folder):
        raise _damaged(folder, f"it has {size:,} of its {pages * page:,} bytes")


def _has_wal(folder: Path) -> bool:
    log = folder / f"{FILE}-wal"
    return log.exists() and log.stat().st_size > 0


def _connect(folder: Path, options: str) -> sqlite3.Connection:
    path = folder / FILE
    if not path.is_file():
        raise ConfigError(f"no run in {folder}: it has no {FILE}. `redqueen runs` lists your runs.")
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?{options}", uri=True, isolation_level=None, timeout=_BUSY_S
    )


@contextlib.contextmanager
def _close_on_error(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


@contextlib.contextmanager
def _explain(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite into messages that say what to do."""
    path = folder / FILE
    try:
        yield
    except sqlite3.DatabaseError as error:
        if _primary_code(error) in _NOT_A_LEDGER and not _has_members(folder):
            raise ConfigError(
                f"{path} is not the ledger of a run: {error}. "
                "Name a folder that `redqueen run` created."
            ) from error
        if _primary_code(error) in (sqlite3.SQLITE_CORRUPT, *_NOT_A_LEDGER):
            raise _damaged(folder, str(error)) from error
        raise StorageError(
            f"{path} cannot be opened: {error}. It was not changed; "
            "check the free disk space and the permissions of the folder."
        ) from error


def _primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; None for an error that SQLite did not raise."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _damaged(folder: Path, why: str) -> StorageError:
    members = (
        f" The members are not in it: {folder / 'checkpoints'} has them as PEFT folders."
        if _has_members(folder)
        else ""
    )
    return StorageError(
        f"the ledger {folder / FILE} is damaged: {why}. Nothing was changed. "
        f"Restore a backup of the folder, or start a new run with another --out.{members}"
    )


def _has_members(folder: Path) -> bool:
    return any(folder.glob("checkpoints/[0-9]*"))


def _check_tables(folder: Path, connection: sqlite3.Connection) -> None:
    """A view, a trigger or a computed column is SQL of whoever made the file, which reading or
    writing would run: it may never end."""
    connection.execute("PRAGMA trusted_schema = OFF")
    ours = table_shapes()
    odd = [name for (name,) in connection.execute(_TRIGGERS)]
    for schema, name, kind, _, _, strict in connection.execute("PRAGMA table_list").fetchall():
        if schema == "main" and name in ours:
            columns = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
            if kind != "table" or not strict or any(hidden for *_, hidden in columns):
                odd.append(name)
    if odd:
        raise ConfigError(
            f"{folder / FILE} is no ledger as redqueen writes it: {', '.join(sorted(odd))[:200]} "
            "would run SQL of its own. Nothing was read."
        )


def _check_schema(folder: Path, connection: sqlite3.Connection, *, to_write: bool) -> int:
    _check_tables(folder, connection)
    about = dict(
        connection.execute(
            "SELECT name, value FROM run WHERE name IN ('schema', 'version')"
        ).fetchall()
    )
    schema, version = str(about.get("schema", "none")), about.get("version")
    if schema == str(SCHEMA) or (schema in _READABLE and not to_write):
        return int(schema)
    writer = f"redqueen {version}" if version else "the version of redqueen that wrote it"
    if schema in _READABLE:
        raise ConfigError(
            f"{folder} is a run of {writer}: this version can read it, but not continue it. "
            f"Resume it with {writer}."
        )
    where = f"{folder / FILE} has schema {schema}, this version writes schema {SCHEMA}"
    if schema.isdecimal() and int(schema) > SCHEMA:
        advice = f"it is newer. Install {writer} or later"
    else:
        advice = f"it is too old to read. Use {writer}, or start a new run with another --out"
    raise ConfigError(f"{where}: {advice}. Nothing was changed.")
