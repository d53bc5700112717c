"""Errors that a user can cause. Each says what is wrong, what was found, and what to do."""

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO}
"""It is full, read-only or failing."""
_PLACE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EPERM}
"""A path that cannot be written to."""


class RedQueenError(Exception):
    """The command line shows it as a message, without a traceback."""


class ConfigError(RedQueenError):
    """A setting, recipe or command line that cannot be used."""


class SandboxError(RedQueenError):
    """The sandbox cannot be built, or does not hold, on this machine."""


class DataError(RedQueenError):
    """An input file that is missing or malformed."""


class StorageError(RedQueenError):
    """The disk is full or failing. What was complete before is still complete."""


class EngineError(RedQueenError):
    """The device that computes has failed. What was complete before is still complete."""


@contextmanager
def explain_disk(path: Path | None = None) -> Iterator[None]:
    """Within: an error of the disk is a message that names the file, or this path that is written
    to."""
    known, verb = (_DISK, "use") if path is None else (_DISK | _PLACE, "write")
    try:
        yield
    except Exception as error:
        advice = "Free some space, or choose another place."
        if isinstance(error, OSError) and error.errno in known:
            where, why = path or error.filename, error.strerror
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                advice = "Choose another place."
        elif type(error).__name__ == "SafetensorError":  # not imported: this module costs nothing
            where, why = path, str(error)
        else:
            raise
        raise StorageError(f"cannot {verb} {where or 'a file'}: {why}. {advice}") from error


def plural(number: int, noun: str) -> str:
    """Such as `1 step` or `2,000 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """The message for a name that is not one of the choices, with the nearest one."""
    known = sorted(set(choices))
    near = [choice for choice in known if choice.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"unknown {what} '{name}'.{hint} Choose from: {', '.join(known)}."
