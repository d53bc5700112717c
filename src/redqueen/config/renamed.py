"""Settings that changed their name: an old name fails with the new one, and the settings of an
older run are read under the new names."""

from collections.abc import Iterator, Mapping
from typing import Any

RENAMED = {
    "engine.rank": "lora.rank",
    "engine.alpha": "lora.alpha",
    "engine.targets": "lora.targets",
    "engine.rows_in_flight": "engine.max_num_seqs",
    "engine.steps_between_looks": "engine.decode_steps_per_sync",
    "engine.prefill_tokens": "engine.max_prefill_tokens",
    "engine.train_tokens": "engine.max_tokens_per_microbatch",
    "reward.right": "reward.correct",
    "sandbox.lanes": "sandbox.workers",
    "stop.lazy_steps": "stop.steps_without_problem",
    "stop.still_steps": "stop.steps_without_update",
    "tasks.pack": "tasks.prompt_format",
}
"""Old path to new path. A path may name a section: all settings below it move along."""


def new_name(path: str) -> str | None:
    """Today's path of a setting or section that was renamed; None for one that was not."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        if moved := RENAMED.get(".".join(parts[:length])):
            return ".".join([moved, *parts[length:]])
    return None


def rename_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings of any age, under today's names."""
    renamed: dict[str, Any] = {}
    for path, value in _leaves(values):
        *sections, name = (new_name(path) or path).split(".")
        section = renamed
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = value
    return renamed


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
