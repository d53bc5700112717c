"""A redo log: commands in the order they were accepted, each on the disk before it is answered.

A record is a length, a checksum and the bytes. What was being written when the power went is cut
off when the file is opened again.
"""

import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from redqueen.ledger.durable import sync

_HEAD = struct.Struct("<II")
MAX_RECORD = 1 << 30


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        is_new = not path.exists()
        whole = sum(_HEAD.size + len(record) for record in read_records(path))
        self._file = path.open("ab")
        self._file.truncate(whole)
        self.size = whole
        if is_new:
            sync(path.parent)

    def append(self, records: Iterable[bytes]) -> None:
        """Returns when they are on the disk."""
        with self._lock:
            for record in records:
                self._file.write(_HEAD.pack(len(record), zlib.crc32(record)))
                self._file.write(record)
                self.size += _HEAD.size + len(record)
            self._file.flush()
            os.fsync(self._file.fileno())

    def keep(self, wanted: Iterable[bytes]) -> None:
        """Go on with these records and no others, in one instant."""
        with self._lock:
            new = self.path.with_suffix(".new")
            with new.open("wb") as file:
                for record in wanted:
                    file.write(_HEAD.pack(len(record), zlib.crc32(record)))
                    file.write(record)
                file.flush()
                os.fsync(file.fileno())
            self._file.close()
            new.replace(self.path)
            sync(self.path.parent)
            self._file = self.path.open("ab")
            self.size = self._file.tell()

    def records(self) -> list[bytes]:
        with self._lock:
            return list(read_records(self.path))

    def close(self) -> None:
        with self._lock:
            self._file.close()


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
