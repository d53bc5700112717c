"""One writer a run: a lock on the folder that the kernel takes back from a process however it dies."""

import contextlib
import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from redqueen.errors import ConfigError, StorageError
from redqueen.ledger.durable import make_folder

FILE = "lock"
_TRIES = 10  # whoever asks for the holder holds the lock for a moment too
_PAUSE_S = 0.05

_held: set[int] = set()


@dataclass(frozen=True)
class Holder:
    """Who says to hold a lock; only what is said, the lock itself is the kernel's."""

    pid: int
    boot: str
    host: str

    def __str__(self) -> str:
        where = (
            ""
            if self.boot == _boot()
            else f" on {self.host}, another machine or an earlier start of this one"
        )
        return f"process {self.pid}{where}"


class RunLock:
    """Held from `with` to its end, or to the death of the process. The folder is made if need be;
    the file `lock` stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            raise ValueError(f"this process holds the lock of {self.folder} already")
        try:
            make_folder(self.folder)
            descriptor = os.open(self.folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StorageError(
                f"{self.folder} cannot be locked: {error}. Nothing was changed; look at the rights on the folder."
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
        if (
            self._descriptor in _held
        ):  # not in a fork, where the number may be another file's by now
            _held.discard(self._descriptor)
            fcntl.flock(
                self._descriptor, fcntl.LOCK_UN
            )  # a process forked a moment ago may still have it open
            os.close(self._descriptor)
        self._descriptor = None

    def _acquire(self, descriptor: int) -> None:
        for _ in range(_TRIES):
            if _lock(descriptor, fcntl.LOCK_EX):
                break
            time.sleep(_PAUSE_S)
        else:
            holder = _said(descriptor) or "another process"
            raise ConfigError(
                f"{holder} is at the run in {self.folder}. Wait until it ends, or end it, or choose another folder with --out."
            )
        me = json.dumps(asdict(Holder(os.getpid(), _boot(), socket.gethostname())))
        with contextlib.suppress(OSError):  # a full disk: the lock holds without its note
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, me.encode(), 0)


def is_held(folder: Path) -> bool:
    """Whether a process is at the run now."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDONLY)
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


def _said(descriptor: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (OSError, ValueError, TypeError):
        return None


def _boot() -> str:
    """What tells one start of a machine from another: process numbers mean nothing beyond it."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "unknown"


def _let_go_in_fork() -> None:
    """A forked process shares the lock: it would outlive the run that took it."""
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_fork)
