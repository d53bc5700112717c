"""What survives a kill: a folder for each tenant, and in it one for each model.

    FOLDER/server.json                        base, rank and alpha: what adapters here fit
    FOLDER/TENANT/sessions                    a journal of sessions and samplers
    FOLDER/TENANT/models/ID/model.json        shape, and which checkpoint counts
                           journal            commands since that checkpoint
                           checkpoint-12/     weights and optimizer after command 12
                           samplers/          unnamed samplers that outlived their weights
                           weights/  sampler_weights/  external_weights/  (saved.py)

Names in paths are the server's own, or match `NAME`; nothing else of a request becomes a path.
"""

import contextlib
import errno
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from redqueen.errors import ConfigError
from redqueen.ledger.durable import make_folder, remove_tree, sync, sync_tree
from redqueen.serve.commands import Refused

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
KINDS = ("weights", "sampler_weights", "external_weights")
MODEL = "model"
"""The name of the one slot in a folder that an engine saved."""


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """In one instant, and on the disk."""
    new = path.with_name(path.name + ".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync(path.parent)


def read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def write_folder(target: Path, write: Callable[[Path], None]) -> None:
    """A folder that is there whole or not at all; one that was there is replaced."""
    make_folder(target.parent)
    new = target.with_name(f".{target.name}.new")
    remove_tree(new)
    new.mkdir()
    try:
        write(new)
        sync_tree(new)
    except Exception as error:
        remove_tree(new)  # a part of it would take the room that others need
        if isinstance(error, SafetensorError):  # what that library makes of a full disk
            raise OSError(errno.EIO, str(error), str(target)) from error
        raise
    if target.exists():
        old = target.with_name(f".{target.name}.old")
        remove_tree(old)
        target.rename(old)
        new.rename(target)
        remove_tree(old)
    else:
        new.rename(target)
    sync(target.parent)


def discard(folder: Path) -> None:
    """Remove a folder that a kill must not leave in half: it loses its name first."""
    gone = folder.with_name(f".{folder.name}.gone")
    remove_tree(gone)
    folder.rename(gone)
    sync(folder.parent)
    remove_tree(gone)


def open_server_folder(folder: Path, about: Mapping[str, Any]) -> None:
    """Refuse a folder whose adapters do not fit this server."""
    make_folder(folder)
    file = folder / "server.json"
    if not file.exists():
        write_json(file, about)
        return
    there = read_json(file)
    if odd := [key for key in about if there.get(key) != about[key]]:
        told = "; ".join(f"{key} was {there.get(key)}, now {about[key]}" for key in odd)
        raise ConfigError(
            f"{folder} holds models of another server: {told}. Start it as before, or choose "
            "another --folder."
        )


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name) or ".." in name:
        raise Refused(
            f"{str(name)[:80]!r} is no name for a checkpoint: letters, digits, dots, - and _, "
            "128 at most"
        )
    return name


def parse_path(path: Any) -> tuple[str, str, str]:
    """Model, kind and name of `tinker://MODEL/KIND/NAME`."""
    parts = path.removeprefix("tinker://").split("/") if isinstance(path, str) else []
    if len(parts) != 3 or not path.startswith("tinker://") or parts[1] not in KINDS:
        raise Refused(
            f"{str(path)[:120]!r} is no path of saved weights: tinker://MODEL/weights/NAME or "
            "tinker://MODEL/sampler_weights/NAME"
        )
    return parts[0], parts[1], check_name(parts[2])


class ModelFolder:
    """The files of one model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def checkpoint(self, sequence: int) -> Path:
        return self.folder / f"checkpoint-{sequence}"

    def sampler(self, id_: str) -> Path:
        return self.folder / "samplers" / id_.replace(":", "-")

    def sweep(self, checkpoint: int, samplers: Sequence[str]) -> None:
        """Remove checkpoints and samplers that no longer count, and what a kill left half
        written."""
        living = [self.sampler(id_) for id_ in samplers]
        for folder in (self.folder / "samplers").glob("[!.]*"):
            if folder not in living:
                discard(folder)
        for folder in self.folder.glob("checkpoint-*"):
            if folder != self.checkpoint(checkpoint):
                discard(folder)
        for place in (self.folder, *(self.folder / kind for kind in (*KINDS, "samplers"))):
            for folder in place.glob(".*"):
                name = folder.name[1:].removesuffix(".old")
                if folder.name.endswith(".old") and not (place / name).exists():
                    folder.rename(place / name)  # killed between the two renames
                else:
                    remove_tree(folder)


def size_of(folder: Path) -> int:
    """Bytes of all files below, as far as nobody removes them meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):  # which goes on where a folder has vanished
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(place, name).stat().st_size
    return total
