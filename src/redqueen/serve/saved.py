"""Weights that tenants saved by name. Every save has a folder of its own, which never changes:

    KIND/NAME@12/    what command 12 saved as NAME

The newest one has the name. One that was saved over stays as long as somebody samples from it.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from redqueen.serve.commands import Refused
from redqueen.serve.store import KINDS, check_name, discard, read_json, write_folder, write_json


@dataclass(frozen=True, slots=True)
class Save:
    kind: str
    name: str
    folder: Path
    about: dict[str, Any]

    @property
    def sequence(self) -> int:
        """The command that saved it."""
        return int(self.about["sequence"])


class SavedFolders:
    """Those of one model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, kind: str, name: str, sequence: int) -> Path:
        return self.folder / kind / f"{check_name(name)}@{sequence}"

    def add(
        self,
        kind: str,
        name: str,
        sequence: int,
        about: dict[str, Any],
        ttl_s: int | None,
        write: Callable[[Path], None],
    ) -> None:
        now = datetime.now(UTC)
        expires = (now + timedelta(seconds=ttl_s)).isoformat() if ttl_s else None
        about = {**about, "sequence": sequence, "time": now.isoformat(), "expires_at": expires}

        def write_all(folder: Path) -> None:
            write(folder)
            write_json(folder / "about.json", about)

        write_folder(self.place(kind, name, sequence), write_all)

    def current(self, kind: str, name: str) -> Save | None:
        """The newest of this name. None: there is none, or its time is over; then it is removed."""
        versions = self._versions(kind, check_name(name))
        try:
            about = read_json(versions[-1] / "about.json")
        except (IndexError, OSError, ValueError):
            return None
        if about.get("expires_at") and about["expires_at"] < datetime.now(UTC).isoformat():
            _discard(versions)
            return None
        return Save(kind, name, versions[-1], about)

    def find(self, kind: str, name: str, sequence: int) -> Path | None:
        """What this command saved, even if it was saved over."""
        return next((one for one in self._versions(kind, name) if _sequence(one) == sequence), None)

    def all(self) -> Iterator[Save]:
        for kind in KINDS:
            for name in self._names(kind):
                if save := self.current(kind, name):
                    yield save

    def replaced(self) -> list[Path]:
        """Those that were saved over, oldest first."""
        old = [
            one for kind in KINDS for name in self._names(kind)
            for one in self._versions(kind, name)[:-1]
        ]  # fmt: skip
        return sorted(old, key=_sequence)

    def delete(self, kind: str, name: str) -> None:
        """The name, and whatever was saved under it before."""
        versions = self._versions(kind, name)
        if not versions:
            raise Refused(f"there is no checkpoint {kind}/{name}", 404)
        _discard(versions)

    def _names(self, kind: str) -> list[str]:
        folders = (self.folder / kind).glob("[!.]*")
        return sorted({one.name.partition("@")[0] for one in folders})

    def _versions(self, kind: str, name: str) -> list[Path]:
        """Oldest first. Folders of servers that kept one save of a name give theirs none."""
        place = self.folder / kind
        first = [place / name] if (place / name).is_dir() else []
        return first + sorted(place.glob(f"{name}@*"), key=lambda one: int(one.name.split("@")[1]))


def _sequence(folder: Path) -> int:
    number = folder.name.partition("@")[2]
    if number:
        return int(number)
    try:
        return int(read_json(folder / "about.json")["sequence"])
    except (OSError, ValueError, KeyError):
        return 0


def _discard(versions: list[Path]) -> None:
    """Oldest first: a kill in between gives no old one the name."""
    for folder in versions:
        with contextlib.suppress(FileNotFoundError):  # somebody else has just done it
            discard(folder)
