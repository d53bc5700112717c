"""Adapters out of checkpoints of runs before 0.2: one `engine.safetensors` with the weights of all
members as rows of a matrix, in the order of the engine's slots."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from redqueen.config.engine import LoraConfig
from redqueen.engine.torch.layout import Layout
from redqueen.errors import DataError
from redqueen.models.adapter import Adapter
from redqueen.models.base import Base

ENGINE_FILE = "engine.safetensors"


def is_first_edition(folder: Path) -> bool:
    """Whether a checkpoint is of that kind."""
    return (folder / ENGINE_FILE).is_file()


def first_rows(state: Mapping[str, Any], hall_sizes: Sequence[int]) -> list[int]:
    """The row where each world begins, from the checkpoint's state and the worlds'
    `evolve.hall_of_fame.size`. Worlds lie one after another, each with as many rows as it has
    members, and room for its halls of fame, one of teachers and one of students."""
    rows = [0]
    for world, size in zip(state["worlds"], hall_sizes, strict=True):
        rows.append(rows[-1] + len(world["members"]) + 2 * size)
    return rows[:-1]


def read_adapters(folder: Path, rows: Sequence[int], base: Base, lora: LoraConfig) -> list[Adapter]:
    """The adapters in some rows, and nothing else of the file. A member's row is the first one of
    its world plus its slot."""
    layout, file = Layout(base, lora.rank, lora.alpha, lora.targets), folder / ENGINE_FILE
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
