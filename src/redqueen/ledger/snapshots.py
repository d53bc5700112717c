"""Snapshots: members' adapters as they were at some steps, kept for good. Nothing is resumed from
them."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.ledger.durable import make_folder, remove_tree, sync, sync_tree
from redqueen.ledger.members import SavedMember, adapter_name, saved_member
from redqueen.records import Member

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

_MEMBERS = "members.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    step: int
    folder: Path
    members: list[SavedMember]


def write_snapshot(
    run: Path,
    step: int,
    members: Iterable[tuple[int, Member, "Adapter"]],
    *,
    base: str,
    fingerprint: str,
) -> None:
    """`members` come with the numbers of their worlds. The folder gets its name once it is
    complete."""
    from redqueen.models.peft_io import save_adapter

    final = run / "snapshots" / f"{step:06d}"
    staging = final.with_name(f".staging-{final.name}")
    make_folder(final.parent)
    remove_tree(staging)
    staging.mkdir()
    listed = []
    for world, member, adapter in members:
        folder = staging / "adapters" / adapter_name(world, member.id)
        save_adapter(adapter, folder, base=base, fingerprint=fingerprint)
        listed.append({"world": world, **asdict(member)})
    (staging / _MEMBERS).write_text(json.dumps({"step": step, "members": listed}) + "\n")
    sync_tree(staging)
    doomed = final.with_name(f".deleted-{final.name}")
    if final.exists():  # the step is played again after a kill
        final.rename(doomed)
    staging.rename(final)
    sync(final.parent)
    remove_tree(doomed)


def snapshots(run: Path) -> list[Snapshot]:
    """Oldest first."""
    found = []
    for listed in sorted((run / "snapshots").glob(f"[0-9]*/{_MEMBERS}")):
        record = json.loads(listed.read_text())
        folder = listed.parent
        members = [saved_member(folder, one["world"], one) for one in record["members"]]
        found.append(Snapshot(record["step"], folder, members))
    return found
