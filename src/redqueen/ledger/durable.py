"""Files and folders that survive a power cut: written to the disk, not to its cache."""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 1 << 20


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a file in a run's folder, which may be somebody else's run: a link there
    would lead to a file of the user's, and nothing waits for a pipe."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.EPERM, "a link, not a file", str(path)) from error
        raise
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EPERM, "not a file", str(path))


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            # so that reading it back asks the disk, not the page cache
            with contextlib.suppress(OSError):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make the folder and its parents, and sync the entry of each."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)


def sync_tree(folder: Path) -> None:
    """Sync every file and folder below, and the folder itself last."""
    for path in [*walk(folder), folder]:
        sync(path)


def walk(folder: Path) -> Iterator[Path]:
    """Everything below a folder, sorted; a folder comes after its content."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from walk(path)
        yield path


def checksum(path: Path) -> str:
    """The sha256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def remove_tree(folder: Path) -> None:
    """Remove as much as possible; what is left is swept another time."""
    shutil.rmtree(folder, ignore_errors=True)
