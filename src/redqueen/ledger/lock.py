"""One writer per run: a lock on the folder, which the kernel releases however its holder dies."""

import contextlib
import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from redqueen.errors import ConfigError, StorageError
from redqueen.ledger.durable import make_folder, open_regular

FILE = "lock"
_TRIES = 10  # `is_held` takes the lock for a moment, too
_PAUSE_S = 0.05

_held: set[int] = set()


@dataclass(frozen=True)
class Holder:
    """Who claims to hold a lock. Only a note for people: the lock itself is the kernel's."""

    pid: int
    boot: str
    host: str

    def __str__(self) -> str:
        if self.boot == _boot_id():
            return f"process {self.pid}"
        return f"process {self.pid} on {self.host} (another machine, or before a reboot)"


class RunLock:
    """Holds the lock inside a `with` block. Creates the folder if needed; the file `lock` stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            raise ValueError(f"this process already holds the lock of {self.folder}")
        _release_in_forks()
        try:
            make_folder(self.folder)
        except OSError as error:
            raise StorageError(
                f"the folder {self.folder} cannot be made: {error.strerror}. Choose another place "
                "with --out."
            ) from error
        try:
            descriptor = open_regular(self.folder / FILE, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StorageError(
                f"{self.folder} cannot be locked: {error}. Nothing was changed; "
                "check the permissions of the folder."
            ) from error
        try:
            self._acquire(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(descriptor)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # In a fork the descriptor is closed already, and its number may belong to another file.
        if self._descriptor in _held:
            _held.discard(self._descriptor)
            # Closing is not enough: a process forked a moment ago may still have the file open.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
        self._descriptor = None

    def _acquire(self, descriptor: int) -> None:
        for _ in range(_TRIES):
            if _lock(descriptor, fcntl.LOCK_EX):
                break
            time.sleep(_PAUSE_S)
        else:
            holder = _read_holder(descriptor) or "another process"
            raise ConfigError(
                f"{self.folder} is locked by {holder}. Wait for it, stop it, or pass another --out."
            )
        me = json.dumps(asdict(Holder(os.getpid(), _boot_id(), socket.gethostname())))
        with contextlib.suppress(OSError):  # on a full disk the lock holds without the note
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, me.encode(), 0)


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock of the run now."""
    try:
        descriptor = open_regular(folder / FILE, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StorageError(
            f"this file system cannot lock files: {error}. Use a folder on a local disk."
        ) from error
    return True


def _read_holder(descriptor: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (OSError, ValueError, TypeError):
        return None


def _boot_id() -> str:
    """Changes with every boot: a process id means nothing after a reboot."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "unknown"


@cache
def _release_in_forks() -> None:
    """A fork shares the lock, and would keep it after the run has ended: close it there."""

    def close_all() -> None:
        for descriptor in _held:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        _held.clear()

    os.register_at_fork(after_in_child=close_all)
