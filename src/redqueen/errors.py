"""Errors that a user can cause. Each says what is wrong, what was found, and what to do."""

import difflib
from collections.abc import Iterable


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


def unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """The message for a name that is not one of the choices, with the nearest one."""
    known = sorted(choices)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"unknown {what} '{name}'.{hint} Choose from: {', '.join(known)}."
