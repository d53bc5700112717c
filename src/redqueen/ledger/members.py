"""Members as they are in a checkpoint or a snapshot: who they are, and where their PEFT folders
are. No engine is needed to read them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from redqueen.errors import ConfigError, DataError, RedQueenError, unknown
from redqueen.ledger.checkpoint import Checkpoint, Checkpoints
from redqueen.ledger.store import FILE
from redqueen.records import Rating, Role

T = TypeVar("T")
_ID = re.compile(r"\w[\w.@-]*")


@dataclass(frozen=True, slots=True)
class SavedMember:
    world: int
    id: str
    role: Role
    rating: Rating
    version: int
    """Times it was trained."""
    slot: int
    """In its world."""
    adapter: Path
    """Its PEFT folder. Checkpoints of runs before 0.2 have none: see
    `redqueen.engine.torch.first_edition`."""


def adapter_name(world: int, member: str) -> str:
    """What an engine is to call the member's adapter when it saves it: `0/S2.30`, or `0/T2@30` in
    the hall of fame. It becomes a path, and a checkpoint may be somebody else's."""
    if not _ID.fullmatch(member):
        raise DataError(f"{member[:80]!r} is no name of a member: the checkpoint was tampered with")
    return f"{world}/{member}"


def saved_member(folder: Path, world: int, fields: Mapping[str, Any]) -> SavedMember:
    """From the fields of a `redqueen.records.Member`, and the folder that its engine saved to."""
    return SavedMember(
        world,
        fields["id"],
        fields["role"],
        Rating(**fields["rating"]),
        fields["version"],
        fields["slot"],
        folder / "adapters" / adapter_name(world, fields["id"]),
    )


def newest_checkpoint(run: Path) -> Checkpoint:
    checkpoint = Checkpoints(run).newest()
    if checkpoint is None and run.is_file():
        raise ConfigError(f"{run} is a packed ledger: it has no members")
    if checkpoint is None and not (run / FILE).exists():
        raise ConfigError(f"there is no run in {run}: `redqueen runs` lists those there are")
    if checkpoint is None:
        raise DataError(
            f"no checkpoint of the run in {run} can be read, so its members are lost. "
            "`redqueen export --problems` still works."
        )
    return checkpoint


def read_newest(run: Path, read: Callable[[Checkpoint], T]) -> T:
    """What `read` finds in the newest checkpoint. A run that goes on may delete it meanwhile: then
    in a newer one."""
    while True:
        checkpoint = newest_checkpoint(run)
        try:
            return read(checkpoint)
        except (OSError, RedQueenError):
            if checkpoint.folder.exists():
                raise


def saved_members(checkpoint: Checkpoint, world: int | None = None) -> list[SavedMember]:
    """The living members of all worlds, or of one."""
    worlds: list[dict[str, Any]] = checkpoint.state["worlds"]
    if world is not None and not 0 <= world < len(worlds):
        raise ConfigError(f"there is no world {world}: this run has {len(worlds)}, from 0")
    return [
        saved_member(checkpoint.folder, number, fields)
        for number, state in enumerate(worlds)
        if world in (None, number)
        for fields in state["members"]
    ]


def choose_member(members: Iterable[SavedMember], wanted: str) -> SavedMember:
    by_id = {member.id: member for member in members}
    if wanted not in by_id:
        raise ConfigError(unknown("living member", wanted, by_id))
    return by_id[wanted]
