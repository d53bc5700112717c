"""Snapshots: members' weights as they were at some steps, kept for good. Nothing is resumed from
them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redqueen.ledger.durable import make_folder, sync


@dataclass(frozen=True, slots=True)
class Snapshot:
    step: int
    weights: Path
    members: list[dict[str, Any]]
    """World, id, role and slot of each."""


def write_snapshot(
    run: Path, step: int, save: Callable[[Path], None], members: Sequence[dict[str, Any]]
) -> None:
    """The weights first, then the list of members, each under its name only when it is whole: where
    there is a list, there is all."""
    folder = run / "snapshots"
    make_folder(folder)
    weights, listed = folder / f"{step:06d}.safetensors", folder / f"{step:06d}.json"
    save(_new(weights))
    _new(listed).write_text(json.dumps({"step": step, "members": list(members)}) + "\n")
    for path in (weights, listed):
        sync(_new(path))
        _new(path).rename(path)
    sync(folder)


def snapshots(run: Path) -> list[Snapshot]:
    """Those that are whole, the oldest first."""
    found = []
    for listed in sorted((run / "snapshots").glob("[0-9]*.json")):
        record = json.loads(listed.read_text())
        found.append(
            Snapshot(record["step"], listed.with_suffix(".safetensors"), record["members"])
        )
    return found


def _new(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")
