"""Members out of a run's newest checkpoint: as PEFT folders, as full weights, or all students as
one adapter."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redqueen.config.schema import Config
from redqueen.config.toml import config_from_toml
from redqueen.core.run import ENGINE_FILE
from redqueen.errors import ConfigError, DataError, unknown
from redqueen.ledger.checkpoint import Checkpoint, Checkpoints
from redqueen.ledger.store import base_weights

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter
    from redqueen.models.base import Base


@dataclass(frozen=True, slots=True)
class Saved:
    """A member as the checkpoint has it."""

    member: str
    role: str
    slot: int
    """Its row in the engine's weights."""
    mu: float
    sigma: float
    version: int


def newest_checkpoint(folder: Path) -> Checkpoint:
    found = Checkpoints(folder).newest()
    if found is None:
        raise DataError(
            f"no checkpoint of the run in {folder} can be read, so its members are lost. `redqueen export --problems` still works."
        )
    return found


def saved_members(checkpoint: Checkpoint, world: int) -> list[Saved]:
    """The living members of a world. Worlds have their slots one after another, in their order."""
    worlds: list[dict[str, Any]] = checkpoint.state["worlds"]
    if not 0 <= world < len(worlds):
        raise ConfigError(f"there is no world {world}: this run has {len(worlds)}, from 0")
    first = sum(len(before["members"]) for before in worlds[:world])
    return [
        Saved(
            one["id"],
            one["role"],
            first + one["slot"],
            one["rating"]["mu"],
            one["rating"]["sigma"],
            one["version"],
        )
        for one in worlds[world]["members"]
    ]


def choose(members: Sequence[Saved], wanted: str) -> Saved:
    found = {one.member: one for one in members}
    if wanted not in found:
        raise ConfigError(unknown("living member", wanted, found))
    return found[wanted]


def load_adapters(
    about: dict[str, str],
    checkpoint: Checkpoint,
    members: Sequence[Saved],
    base_now: str | None = None,
) -> "tuple[Base, list[Adapter]]":
    """The members' weights, and their base."""
    from redqueen.engine.torch.first_edition import read_adapters
    from redqueen.models.base import load_base

    config = config_from_toml(about["config"])
    base = load_base(base_now or config.base, device="cpu", dtype=_dtype(config, about))
    base.check(base_weights(about))
    rows = [member.slot for member in members]
    return base, read_adapters(checkpoint.folder / ENGINE_FILE, rows, base, config.lora)


def _dtype(config: Config, about: dict[str, str]) -> Any:
    """What the base had in the run: on a GPU `auto` was bfloat16."""
    if config.dtype != "auto":
        return config.dtype
    return "float32" if '"device": "CPU' in about.get("machine", "") else "bfloat16"


def soup(adapters: "Sequence[Adapter]") -> "Adapter":
    """The mean of what all members add to the base, cut back to their rank: the nearest adapter to
    their average.

    Averaging A and B by themselves would be another thing, with cross terms that are in no member.
    """
    from redqueen.stages.evolve.merge import merge_adapters

    return merge_adapters(adapters)
