"""Adapters out of checkpoints and snapshots of runs before 0.2: one `engine.safetensors` that holds
all members' weights as rows of a matrix, in the order of the engine's slots."""

from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open

from redqueen.config.engine import LoraConfig
from redqueen.engine.torch.layout import Layout
from redqueen.errors import DataError
from redqueen.models.adapter import Adapter
from redqueen.models.base import Base

ENGINE_FILE = "engine.safetensors"


def first_slots(members: Sequence[int], hall_sizes: Sequence[int]) -> list[int]:
    """The row where each world begins, from its number of members and its
    `evolve.hall_of_fame.size`: worlds lie one after another, each with room for a hall of fame of
    teachers and one of students."""
    slots = [0]
    for count, size in zip(members, hall_sizes, strict=True):
        slots.append(slots[-1] + count + 2 * size)
    return slots[:-1]


def read_adapters(file: Path, rows: Sequence[int], base: Base, lora: LoraConfig) -> list[Adapter]:
    """The adapters in some rows of such a file, and nothing else of it."""
    layout = Layout(base, lora.rank, lora.alpha, lora.targets)
    try:
        with safe_open(file, framework="pt") as opened:
            weights = opened.get_slice("weights")
            count, size = weights.get_shape()
            if size != layout.size or any(row >= count for row in rows):
                raise DataError(
                    f"the weights in {file} are not of the base '{base.name}' with rank "
                    f"{lora.rank}: its files have changed"
                )
            return [layout.to_adapter(weights[row : row + 1][0]) for row in rows]
    except (OSError, SafetensorError) as error:
        raise DataError(f"{file} cannot be read: {error}") from error
