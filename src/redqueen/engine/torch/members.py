"""Members as files: copied into main memory first, so that they can be written while the engine
goes on."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from redqueen.engine.torch.layout import Layout
from redqueen.engine.torch.memory import is_out_of_memory
from redqueen.models.base import Base
from redqueen.models.peft_io import save_adapter


def optimizer_file(folder: Path, name: str) -> Path:
    """Where a member's optimizer state is, in a checkpoint."""
    return folder / "optimizer" / f"{name}.safetensors"


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """The members of all slots at one moment, in main memory. Calling it writes those that have
    names; from any thread, since nothing changes it."""

    base: Base
    layout: Layout
    weights: Tensor
    """[slots, parameters_each]"""
    optimizer: Mapping[str, Tensor]
    """By name, a row for each slot; empty where it is not kept."""
    names: Mapping[int, str]

    def __call__(self, folder: Path) -> list[Path]:
        files = list[Path]()
        place = str(self.base.model.config.name_or_path or self.base.name)
        for slot, name in self.names.items():
            adapter, own = self.layout.to_adapter(self.weights[slot]), folder / "adapters" / name
            files += save_adapter(adapter, own, base=place, fingerprint=self.base.fingerprint)
            if not self.optimizer:
                continue
            files.append(optimizer_file(folder, name))
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            save_file({key: rows[slot] for key, rows in self.optimizer.items()}, files[-1])
            shutil.copymode(files[-2], files[-1])  # safetensors lets nobody else read it
        return [path.relative_to(folder) for path in files]


def copy_to_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that are there when this returns. Those of a GPU go into pinned memory, several times
    as fast; torch keeps it for the next ones."""
    copies = {name: _begin_copy(values) for name, values in tensors.items()}
    for device in {values.device for values in tensors.values() if values.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    return copies


def _begin_copy(values: Tensor) -> Tensor:
    if not values.is_cuda:
        return values.clone()
    try:
        pinned = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    except RuntimeError as error:  # as much cannot be pinned here
        if not is_out_of_memory(error):
            raise
        return values.cpu()
    return pinned.copy_(values, non_blocking=True)
