"""A member and its base as one model: full weights that need no adapter."""

from pathlib import Path

import torch
from torch import nn

from redqueen.engine.torch.population import AdaptedLinear, Adapter, Population
from redqueen.models.base import Base


def merge(population: Population, adapter: Adapter) -> Base:
    """Add the adapter to the base's own weights, and take the population off it. The base is
    changed for good; the population is spent."""
    base = population.base
    with torch.no_grad():
        for name, (first, second) in adapter.items():
            adapted = base.model.get_submodule(name)
            assert isinstance(adapted, AdaptedLinear)
            linear: nn.Linear = adapted.linear
            weight = linear.weight.float() + population.scale * (first @ second).T.to(
                linear.weight.device
            )
            linear.weight.copy_(weight.to(linear.weight.dtype))
            parent, _, last = name.rpartition(".")
            setattr(base.model.get_submodule(parent), last, linear)
    return base


def save_model(base: Base, folder: Path) -> None:
    """The model and its tokenizer in the Hugging Face format."""
    folder.mkdir(parents=True, exist_ok=True)
    base.model.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
