"""The adapters of a run's members, from checkpoints of any version, and the base they are on."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.ledger.checkpoint import Checkpoint
from redqueen.ledger.members import SavedMember
from redqueen.ledger.run_reader import RunReader
from redqueen.ledger.store import base_weights

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter
    from redqueen.models.base import Base


def load_adapters(
    run: Path, checkpoint: Checkpoint, members: Sequence[SavedMember], base: str | None = None
) -> "list[Adapter]":
    """In the members' order. `base` says where the run's base is now, if it moved; it is needed for
    runs before 0.2 only."""
    from redqueen.engine.torch.first_edition import first_rows, is_first_edition, read_adapters
    from redqueen.models.peft_io import load_adapter

    if not is_first_edition(checkpoint.folder):
        return [load_adapter(member.adapter) for member in members]
    with closing(RunReader(run)) as reader:
        configs = [world.config for world in reader.worlds]
    first = first_rows(checkpoint.state, [config.evolve.hall_of_fame.size for config in configs])
    rows = [first[member.world] + member.slot for member in members]
    return read_adapters(checkpoint.folder, rows, load_run_base(run, base), configs[0].lora)


def load_run_base(run: Path, base: str | None = None) -> "Base":
    """The base of a run, on the CPU, in the dtype it had there; refused where its weights are not
    those that the members were trained on."""
    from redqueen.models.base import load_base

    with closing(RunReader(run)) as reader:
        about, config = reader.about, reader.config
    dtype = config.dtype
    if dtype == "auto":  # bfloat16 on a GPU
        dtype = "float32" if '"device": "CPU' in about.get("machine", "") else "bfloat16"
    loaded = load_base(base or config.base, device="cpu", dtype=dtype)
    loaded.check(base_weights(about))
    return loaded
