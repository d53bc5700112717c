"""Settings that had another name in version 0.1: an old name fails with the new one, and ledgers of
that version are read by it."""

from collections.abc import Mapping
from typing import Any

RENAMED = {
    "engine.rank": "lora.rank",
    "engine.alpha": "lora.alpha",
    "engine.targets": "lora.targets",
    "engine.rows_in_flight": "engine.max_num_seqs",
    "engine.steps_between_looks": "engine.decode_steps_per_sync",
    "engine.prefill_tokens": "engine.max_prefill_tokens",
    "engine.train_tokens": "engine.max_tokens_per_microbatch",
    "sandbox.lanes": "sandbox.workers",
    "tasks.pack": "tasks.prompt_format",
    "match.outcome": "rate.outcome",
    "match.threshold": "rate.outcome.threshold",
    "match.rating.mu": "rate.mu",
    "match.rating.sigma": "rate.sigma",
    "match.rating.beta": "rate.beta",
    "match.rating.tau": "rate.tau",
    "reward.variant": "reward.teacher",
    "reward.invalid": "reward.teacher.invalid",
    "reward.duplicate": "reward.teacher.duplicate",
    "reward.unsolved": "reward.teacher.zero_pass",
    "reward.trivial": "reward.teacher.all_pass",
    "reward.novelty": "reward.teacher.novelty",
    "reward.right": "reward.student.correct",
    "reward.wrong": "reward.student.wrong",
    "reward.malformed": "reward.student.malformed",
    "update.clip_low": "update.loss.clip_low",
    "update.clip_high": "update.loss.clip_high",
    "stop.lazy_steps": "stop.steps_without_problem",
    "stop.still_steps": "stop.steps_without_update",
}

_CHOICES = {"rate.outcome", "reward.teacher"}
"""What was a name and is a choice with settings of its own now."""


def find_renamed(path: str, value: Any) -> dict[str, str]:
    """Today's path by the old one, of the setting at this path or of those in the section there."""
    leaves = _leaves(value, f"{path}.") if isinstance(value, Mapping) else []
    return {old: RENAMED[old] for old in (path, *(leaf for leaf, _ in leaves)) if old in RENAMED}


def rename_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a version 0.1 run under the names of today."""
    renamed: dict[str, Any] = {}
    for path, value in _leaves(values):
        name = RENAMED.get(path, path)
        if value is None:  # not set
            continue
        _put(renamed, f"{name}.type" if name in _CHOICES else name, value)
    outcome = renamed.get("rate", {}).get("outcome", {})
    if outcome.get("type") not in ("threshold", "per_problem"):
        outcome.pop("threshold", None)
    if loss := renamed.get("update", {}).get("loss"):
        renamed["update"]["loss"] = {"type": "ppo", "clip_low": 0.0, "clip_high": 0.0, **loss}
    return renamed


def _leaves(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    leaves = []
    for name, value in values.items():
        path = f"{before}{name}"
        if isinstance(value, Mapping) and "type" not in value:
            leaves += _leaves(value, f"{path}.")
        else:
            leaves.append((path, value))
    return leaves


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    *sections, name = path.split(".")
    for section in sections:
        values = values.setdefault(section, {})
    values[name] = value
