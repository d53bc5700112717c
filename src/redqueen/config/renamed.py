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
    "evolve.child.reset_optimizer": "evolve.child.optimizer",
    "update.clip_low": "update.loss.clip_low",
    "update.clip_high": "update.loss.clip_high",
    "stop.lazy_steps": "stop.steps_without_problem",
    "stop.still_steps": "stop.steps_without_update",
}

RENAMED_ROWS = {"rate.outcome": {"all_proposals": "by_role"}}
"""Rows of open tables, by the setting that chooses one. `all_proposals` counted an unsolved problem
for the student; `by_role` rates students by what they solve."""
_OPTIMIZERS = {True: "reset", False: "keep"}

_CHOICES = {"rate.outcome", "reward.teacher"}
"""What was a name and is a choice with settings of its own now."""


def find_renamed(path: str, value: Any) -> dict[str, str]:
    """Today's path by the old one, of the setting at this path or of those in the section there."""
    leaves = _leaves(value, f"{path}.") if isinstance(value, Mapping) else []
    return {old: RENAMED[old] for old in (path, *(leaf for leaf, _ in leaves)) if old in RENAMED}


def find_renamed_row(path: str, value: Any) -> dict[str, str]:
    """Today's name of a row by the old one, where the setting at this path chooses by that."""
    name = value.get("type") if isinstance(value, Mapping) else value
    return {old: new for old, new in RENAMED_ROWS.get(path, {}).items() if old == name}


def rename_rows(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with today's names of rows."""
    renamed: dict[str, Any] = {}
    for path, value in _leaves(values):
        if path == "evolve.child.reset_optimizer":
            _put(renamed, RENAMED[path], _OPTIMIZERS[value])
            continue
        (new,) = find_renamed_row(path, value).values() or (value,)
        _put(renamed, path, new)
    return renamed


def rename_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a version 0.1 run under the names of today."""
    renamed: dict[str, Any] = {}
    for path, value in _leaves(rename_rows(values)):
        name = RENAMED.get(path, path)
        if value is None:  # not set
            continue
        _put(renamed, f"{name}.type" if name in _CHOICES else name, value)
    outcome = renamed.get("rate", {}).get("outcome", {})
    if outcome.get("type") not in ("threshold", "per_problem"):
        outcome.pop("threshold", None)
    if loss := renamed.get("update", {}).get("loss"):
        renamed["update"]["loss"] = {"type": "ppo", "clip_low": 0.0, "clip_high": 0.0, **loss}
    return rename_rows(renamed)


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
