"""An adapter and its base as one model: full weights that need no adapter."""

import shutil
from pathlib import Path

import torch
from torch import nn

from redqueen.models.adapter import Adapter
from redqueen.models.base import Base


def merge_adapter(base: Base, adapter: Adapter) -> None:
    """Add the adapter to the base's own weights, in place."""
    with torch.no_grad():
        for name, pair in adapter.projections.items():
            linear = base.model.get_submodule(name)
            assert isinstance(linear, nn.Linear)
            update = adapter.scale * (pair.a @ pair.b).T  # [out, in]
            weight = linear.weight.float() + update.to(linear.weight.device)
            linear.weight.copy_(weight.to(linear.weight.dtype))


def save_model(base: Base, folder: Path) -> None:
    """The model and its tokenizer in the Hugging Face format."""
    folder.mkdir(parents=True, exist_ok=True)
    base.model.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):  # which nobody else could read
        shutil.copymode(folder / "config.json", weights)
