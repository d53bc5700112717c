"""Packed ledgers: the ledger of a run as one compressed file, to be published and read where it
lies.

A packed ledger (`NAME.sqlite.xz` or `.gz`) holds the records of a run and nothing else: no members,
no checkpoints. Whatever reads a run reads it as well, from memory; nothing can go on from it.
"""

import gzip
import lzma
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from redqueen.errors import ConfigError, DataError, explain_disk

SUFFIXES = (".sqlite.xz", ".sqlite.gz")
_MOST_BYTES = 2 << 30
"""SQLite takes no more from memory; and a small file may claim to hold any number of zeros."""
_SMALL = 64 << 20
_MOST_RATIO = 1000
"""A ledger's text becomes a tenth or so; only what is made for it becomes less than this."""
_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)


def is_packed(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and path.is_file()


def pack_ledger(connection: sqlite3.Connection, out: Path) -> Path:
    """Write all records that the connection sees as one compressed file."""
    if not out.name.endswith(SUFFIXES):
        raise ConfigError(f"--out {out}: a packed ledger is called NAME{' or NAME'.join(SUFFIXES)}")
    if out.exists():
        raise ConfigError(f"{out} is there already: choose another name with --out")
    with explain_disk(out), TemporaryDirectory() as temporary:
        whole = Path(temporary) / "ledger"
        connection.execute("VACUUM INTO ?", (str(whole),))
        out.parent.mkdir(parents=True, exist_ok=True)
        staging = out.with_name(f".{out.name}.part")
        with whole.open("rb") as source, _opener(out)(staging, "wb") as target:
            while part := source.read(1 << 20):
                target.write(part)
        staging.rename(out)
    return out


def unpack(path: Path) -> bytes:
    """The ledger's file, as SQLite reads it."""
    try:
        most = min(_MOST_BYTES, max(_SMALL, _MOST_RATIO * path.stat().st_size))
        with _opener(path)(path, "rb") as packed:
            content: bytes = packed.read(most + 1)
    except _ERRORS as error:
        raise DataError(f"{path} is damaged: {error or type(error).__name__}") from error
    if len(content) > most:
        raise DataError(f"{path} holds more than {most:,} bytes, more than a ledger of its size")
    return content


def connect_packed(path: Path) -> sqlite3.Connection:
    """A database in memory; changes to it go nowhere."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.deserialize(unpack(path))
    except BaseException:
        connection.close()
        raise
    return connection


def unpack_ledger(path: Path, file: Path) -> None:
    """Write the ledger to a file of its own."""
    content = unpack(path)
    with closing(sqlite3.connect(":memory:")) as connection, explain_disk(file):
        connection.deserialize(content)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _opener(path: Path) -> Callable[..., IO[Any]]:
    return gzip.open if path.name.endswith(".gz") else lzma.open
