"""The members of a run as models that everybody may sample from: `S2`, `soup`, `chosen`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.errors import ConfigError
from redqueen.evaluate.run_members import RunMembers, load_members, select_members
from redqueen.serve.app import ServeSettings

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class ServedRun:
    settings: ServeSettings
    adapters: "dict[str, Adapter]"


def read_run(run: str | Path, settings: ServeSettings, base: str | None = None) -> ServedRun:
    """The living members of a run's newest checkpoint, and settings of a server that fit them."""
    selected = select_members(run)
    if selected is None:
        raise ConfigError(
            f"there is no run in {run}. To train on a base, give it with --base: "
            f"redqueen serve --base {run}"
        )
    adapters = name_members(selected, base)
    config = selected.config
    fitting = replace(
        settings,
        base=base or config.base,
        lora=config.lora,
        slots=max(settings.slots, len(adapters) + 1),
        dtype=config.dtype if settings.dtype == "auto" else settings.dtype,
        fingerprint=selected.fingerprint,
    )
    return ServedRun(fitting, adapters)


def name_members(selected: RunMembers, base: str | None) -> "dict[str, Adapter]":
    adapters = load_members(selected, base)
    named = dict(zip((model.name for model in selected.models), adapters, strict=True))
    for model, adapter in zip(selected.models, adapters, strict=True):
        if model.chosen:
            named[model.name.removesuffix(model.member) + CHOSEN] = adapter
    return named
