"""The manifest of a checkpoint: the size and sha256 of every file, written last. A checkpoint that
does not agree with its manifest is not used."""

import hashlib
import json
from pathlib import Path
from typing import Any

from redqueen.ledger.durable import checksum, walk

MANIFEST = "MANIFEST.json"
STATE = "state.json"
_FORMAT = 1


class InvalidCheckpoint(Exception):
    """Says which file of a checkpoint is missing or damaged, and how."""


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
    """The state of a checkpoint, after every file has been checked against the manifest."""
    try:
        files = _files(folder, step)
        for name, expected in files.items():
            _check(folder / name, name, expected)
        state: dict[str, Any] = json.loads((folder / STATE).read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidCheckpoint(
            f"{getattr(error, 'filename', None) or folder} cannot be read ({error})"
        ) from error
    return state


def _files(folder: Path, step: int) -> dict[str, dict[str, Any]]:
    path = folder / MANIFEST
    if not path.exists():
        raise InvalidCheckpoint(f"{MANIFEST} is missing")
    content = path.read_bytes()
    try:
        manifest = json.loads(content)
        version, files = manifest["format"], manifest["files"]
        if version == _FORMAT and content == _text(manifest["step"], files):
            if manifest["step"] == step and STATE in files:
                return dict(files)
            raise InvalidCheckpoint(f"{MANIFEST} belongs to step {manifest['step']}")
    except (ValueError, KeyError, TypeError):
        version = _FORMAT
    if version != _FORMAT:
        raise InvalidCheckpoint(
            f"{MANIFEST} has format {version}, this redqueen reads format {_FORMAT}"
        )
    raise InvalidCheckpoint(f"{MANIFEST} is damaged ({len(content)} bytes)")


def _text(step: int, files: dict[str, dict[str, Any]]) -> bytes:
    """There is one way to write a manifest, and it carries a checksum of itself: a changed byte
    anywhere is noticed."""
    body = {"format": _FORMAT, "step": step, "files": files}
    own = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**body, "sha256": own}, sort_keys=True, indent=1) + "\n").encode()


def _check(path: Path, name: str, expected: dict[str, Any]) -> None:
    if not path.is_file():
        raise InvalidCheckpoint(f"{name} is missing")
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise InvalidCheckpoint(f"{name} has {size} bytes instead of {expected['bytes']}")
    if checksum(path) != expected["sha256"]:
        raise InvalidCheckpoint(f"{name} is damaged: its sha256 is not the one it was written with")
