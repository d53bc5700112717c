"""Who may ask: tenants and their keys.

A key file has a line `NAME KEY` for each tenant; a tenant may have several. Without keys everybody
who can reach the server is the one tenant `local`, so it listens on this machine only.
"""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redqueen.errors import ConfigError, DataError
from redqueen.ledger.lock import FILE as LOCK

LOCAL = "local"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_TAKEN = (LOCK,)
"""Names of files beside the tenants' folders."""
_PREFIX = "tml-"
"""The SDK refuses to send other keys."""
_MIN_KEY = 12


@dataclass(frozen=True, slots=True)
class Keys:
    pairs: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Tenant and key."""

    @property
    def tenants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.pairs)) or (LOCAL,)

    def tenant_of(self, key: str) -> str | None:
        """Whose key this is. Every key is compared in full, whatever the answer."""
        if not self.pairs:
            return LOCAL
        given, found = key.encode("utf-8", "replace"), None
        for name, own in self.pairs:
            if hmac.compare_digest(given, own.encode()):
                found = name
        return found


def read_keys(file: Path | None, given: Sequence[str] = ()) -> Keys:
    """From a file, and from `NAME=KEY` on the command line."""
    lines = [pair.partition("=")[::2] for pair in given]
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{file} is not a readable key file: {error}") from error
        rows = (line.split() for line in text.splitlines() if line.strip()[:1] not in ("", "#"))
        lines += [(row[0], row[1] if len(row) == 2 else "") for row in rows]
    for name, key in lines:
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise ConfigError(
                f"'{name}' cannot name a tenant: a-z, 0-9, - and _, 32 at most, and not "
                f"{', '.join(_TAKEN)}"
            )
        if not key.startswith(_PREFIX) or len(key) < _MIN_KEY:
            raise ConfigError(
                f"the key of {name} must begin with {_PREFIX}, as the SDK asks for, and have "
                f"{_MIN_KEY} characters or more. Make one with: "
                f"python -c \"import secrets; print('{_PREFIX}' + secrets.token_urlsafe(24))\""
            )
    if len({key for _, key in lines}) < len(lines):
        raise ConfigError("two tenants have the same key")
    return Keys(tuple(lines))
