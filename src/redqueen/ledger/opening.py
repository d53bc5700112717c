"""Opening a ledger's file, to write or to read, and saying what is wrong with it."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from redqueen.errors import ConfigError, StorageError

SCHEMA = 1
FILE = "run.sqlite"

_BUSY_S = (
    60.0  # nothing holds a ledger this long; who opens it first after a kill may, for a moment
)
_FOREIGN = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB)  # no such table, no database at all
_NO_LOG = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
)  # a folder without rights, a full disk


def open_to_write(folder: Path) -> sqlite3.Connection:
    """A connection to a whole ledger of this schema. A file that is none is left as it was."""
    with _said(folder), _closed_on_error(_connect(folder, "mode=rw")) as connection:
        _check_schema(folder, connection)
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise _damaged(folder, found)
        make_durable(connection)
        return connection


def open_to_read(folder: Path) -> sqlite3.Connection:
    with _said(folder):
        try:
            return _checked(folder, "mode=ro")
        except sqlite3.OperationalError as error:
            # SQLite wants a log beside the file. Where it can make none and none is there, nobody
            # writes: the file can be read alone.
            if _kind(error) not in _NO_LOG or _has_log(folder):
                raise
            return _checked(folder, "immutable=1")


def _has_log(folder: Path) -> bool:
    log = folder / f"{FILE}-wal"
    return log.exists() and log.stat().st_size > 0


def make_durable(connection: sqlite3.Connection) -> None:
    """A transaction is on the disk when it is committed, and readers and the writer do not wait for
    each other."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError(
            "this file system offers no write-ahead log; use a folder on a local disk"
        )
    connection.execute("PRAGMA synchronous = FULL")


def _checked(folder: Path, options: str) -> sqlite3.Connection:
    with _closed_on_error(_connect(folder, options)) as connection:
        _check_schema(folder, connection)
        return connection


def _connect(folder: Path, options: str) -> sqlite3.Connection:
    path = folder / FILE
    if not path.is_file():
        raise ConfigError(
            f"there is no run in {folder}: it has no {FILE}. `redqueen runs` lists the runs that are there."
        )
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?{options}", uri=True, isolation_level=None, timeout=_BUSY_S
    )


@contextlib.contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


@contextlib.contextmanager
def _said(folder: Path) -> Iterator[None]:
    """What SQLite finds wrong, as a message that says what to do."""
    path = folder / FILE
    try:
        yield
    except sqlite3.DatabaseError as error:
        if _kind(error) in _FOREIGN:
            raise ConfigError(
                f"{path} is no ledger of a run: {error}. Name a folder that `redqueen run` made."
            ) from error
        if _kind(error) == sqlite3.SQLITE_CORRUPT:
            raise _damaged(folder, str(error)) from error
        raise StorageError(
            f"{path} cannot be opened: {error}. It was not changed; look at the space on the disk and at the rights on the folder."
        ) from error


def _kind(error: sqlite3.Error) -> int | None:
    """SQLite's primary code; None where the error is ours."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _damaged(folder: Path, how: str) -> StorageError:
    return StorageError(
        f"the ledger {folder / FILE} is damaged: {how}. Put back a copy of the folder, or start anew with another --out."
    )


def _check_schema(folder: Path, connection: sqlite3.Connection) -> None:
    found = dict(
        connection.execute(
            "SELECT name, value FROM run WHERE name IN ('schema', 'version')"
        ).fetchall()
    )
    version = str(found.get("schema", "none"))
    if version == str(SCHEMA):
        return
    writer = f"redqueen {found['version']}" if "version" in found else "the redqueen that wrote it"
    if version.isdecimal() and int(version) > SCHEMA:
        advice = f"it is newer than this redqueen. Install {writer} or later"
    else:
        advice = f"it is older than this redqueen can read. Use {writer} for it, or start anew with another --out"
    raise ConfigError(
        f"the ledger {folder / FILE} has schema {version}, this redqueen has schema {SCHEMA}: {advice}. Nothing was changed."
    )
