"""A redo log: commands in the order they were accepted, each on the disk before it is answered.

A record is a length, a checksum and the bytes. What was being written when the power went, or when
the disk was full, is cut off before anything is written after it: a reader stops at the first
record that is not whole.
"""

import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from redqueen.ledger.durable import sync

_HEAD = struct.Struct("<II")
MAX_RECORD = 1 << 30


class Journal:
    """A file, opened for every write: there are as many as models ever were."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._whole = sum(_HEAD.size + len(record) for record in read_records(path))
        with path.open("ab") as file:
            file.truncate(self._whole)
            os.fsync(file.fileno())
        sync(path.parent)

    def append(self, records: Iterable[bytes]) -> None:
        """Returns when they are on the disk."""
        with self._lock, self.path.open("ab") as file:
            if file.tell() != self._whole:
                file.truncate(self._whole)
            self._whole += _write(file, records)

    def keep(self, wanted: Iterable[bytes]) -> None:
        """Go on with these records and no others, in one instant."""
        with self._lock:
            new = self.path.with_suffix(".new")
            try:
                with new.open("wb") as file:
                    whole = _write(file, wanted)
            except OSError:
                new.unlink(missing_ok=True)  # a part of it would take the room that others need
                raise
            new.replace(self.path)
            self._whole = whole
            sync(self.path.parent)

    @property
    def size(self) -> int:
        """In bytes."""
        return self._whole

    def records(self) -> list[bytes]:
        with self._lock:
            return list(read_records(self.path))


def _write(file: BinaryIO, records: Iterable[bytes]) -> int:
    """How many bytes they are in the file."""
    written = 0
    for record in records:
        written += file.write(_HEAD.pack(len(record), zlib.crc32(record)))
        written += file.write(record)
    file.flush()
    os.fsync(file.fileno())
    return written


def read_records(path: Path) -> Iterator[bytes]:
    """Every whole record, up to the first that is not."""
    if not path.exists():
        return
    with path.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            if length > MAX_RECORD:
                return
            record = file.read(length)
            if len(record) < length or zlib.crc32(record) != checksum:
                return
            yield record
