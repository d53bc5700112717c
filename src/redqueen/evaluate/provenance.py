"""Which layers and singular directions a child got from whom: its weights beside its parents', as a
snapshot or a checkpoint has them."""

from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.saved_adapters import load_adapters
from redqueen.ledger.members import newest_checkpoint, saved_members
from redqueen.ledger.run_reader import RunReader
from redqueen.ledger.snapshots import snapshots

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter
    from redqueen.models.inheritance import Overlap


@dataclass(frozen=True, slots=True)
class Provenance:
    child: str
    parents: tuple[str, ...]
    operator: str
    born: int
    step: int
    """Of the weights that were compared: those of its birth are what the operator made, later ones
    have been trained."""
    projections: "tuple[Overlap, ...]"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def provenance(run: Path, member: str, world: int = 0, base: str | None = None) -> Provenance:
    """Of a member that was born in the run."""
    from redqueen.models.inheritance import overlap

    with closing(RunReader(run)) as reader:
        births = {row["member"]: row for row in reader.lineage(world)}
    if member not in births:
        raise ConfigError(unknown("member", member, births))
    birth = births[member]
    parents = tuple(birth["parents"])
    if not parents:
        raise ConfigError(f"{member} has no parents: it was there from the beginning")
    step, (child, *others) = _load(run, world, (member, *parents), birth["born"], base)
    return Provenance(
        member, parents, birth["operator"], birth["born"], step, tuple(overlap(child, others))
    )


def _load(
    run: Path, world: int, names: tuple[str, ...], born: int, base: str | None
) -> "tuple[int, list[Adapter]]":
    """From the earliest place that has all of them since the birth."""
    from redqueen.models.peft_io import load_adapter

    for snapshot in snapshots(run):
        known = {one.id: one for one in snapshot.members if one.world == world}
        if snapshot.step >= born and all(name in known for name in names):
            return snapshot.step, [load_adapter(known[name].adapter) for name in names]
    checkpoint = newest_checkpoint(run)
    known = {one.id: one for one in saved_members(checkpoint, world)}
    if all(name in known for name in names):
        wanted = [known[name] for name in names]
        return checkpoint.step, load_adapters(run, checkpoint, wanted, base)
    gone = ", ".join(name for name in names if name not in known)
    raise ConfigError(
        f"no snapshot has {' and '.join(names)} together, and {gone} is not alive: start a run "
        "with ledger.snapshot_every, such as evolve.every, to look at its births"
    )
