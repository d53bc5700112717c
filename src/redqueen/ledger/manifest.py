"""The manifest of a checkpoint: the size and sha256 of every file, written last. What does not
agree with it is not believed."""

import hashlib
import json
from pathlib import Path
from typing import Any

from redqueen.ledger.durable import checksum, walk

MANIFEST = "MANIFEST.json"
STATE = "state.json"
_FORMAT = 1


class Broken(Exception):
    """A checkpoint that cannot be believed: which file, and what is wrong with it."""


def manifest_of(folder: Path, step: int) -> bytes:
    """The manifest of everything below the folder, to be written into it."""
    files = [path for path in walk(folder) if not path.is_dir()]
    return _text(
        step,
        {
            path.relative_to(folder).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": checksum(path),
            }
            for path in files
        },
    )


def read_state(folder: Path, step: int) -> dict[str, Any]:
    """The state of a checkpoint in which every file is as the manifest says; else `Broken`."""
    try:
        files = _files(folder, step)
        for name, expected in files.items():
            _check(folder / name, name, expected)
        state: dict[str, Any] = json.loads((folder / STATE).read_bytes())
    except (OSError, ValueError) as error:
        raise Broken(
            f"{getattr(error, 'filename', None) or folder} cannot be read ({error})"
        ) from error
    return state


def _files(folder: Path, step: int) -> dict[str, dict[str, Any]]:
    path = folder / MANIFEST
    if not path.exists():
        raise Broken(f"{MANIFEST} is missing")
    content = path.read_bytes()
    try:
        found = json.loads(content)
        version, files = found["format"], found["files"]
        if version == _FORMAT and content == _text(found["step"], files):
            if found["step"] == step and STATE in files:
                return dict(files)
            raise Broken(f"{MANIFEST} belongs to step {found['step']}")
    except (ValueError, KeyError, TypeError):
        version = _FORMAT
    if version != _FORMAT:
        raise Broken(f"{MANIFEST} has format {version}, this redqueen reads format {_FORMAT}")
    raise Broken(f"{MANIFEST} is damaged ({len(content)} bytes)")


def _text(step: int, files: dict[str, dict[str, Any]]) -> bytes:
    """The manifest has one spelling and carries a checksum of itself: a changed byte anywhere
    shows."""
    body = {"format": _FORMAT, "step": step, "files": files}
    own = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**body, "sha256": own}, sort_keys=True, indent=1) + "\n").encode()


def _check(path: Path, name: str, expected: dict[str, Any]) -> None:
    if not path.is_file():
        raise Broken(f"{name} is missing")
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise Broken(f"{name} has {size} bytes instead of {expected['bytes']}")
    if checksum(path) != expected["sha256"]:
        raise Broken(f"{name} is damaged: its sha256 is not the one it was written with")
