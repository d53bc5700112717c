"""Errors a user can cause: each says what was wrong, what we got, and what to do."""

import difflib
from collections.abc import Iterable


class RedQueenError(Exception):
    """Shown to the user as a message, never as a traceback."""


class ConfigError(RedQueenError):
    """A setting, recipe or command line that cannot be used."""


class SandboxError(RedQueenError):
    """The sandbox cannot be built or cannot be trusted on this machine."""


class DataError(RedQueenError):
    """An input file that is missing or malformed."""


class StorageError(RedQueenError):
    """The disk is full or fails: what was whole before is whole still."""


def unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """A message for a name that is none of the choices, with the nearest one."""
    known = sorted(choices)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"unknown {what} '{name}'.{hint} Choose from: {', '.join(known)}."
