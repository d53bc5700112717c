"""Runs and worlds as arms of a comparison: those with equal settings are one arm, and its seeds are
what is replicated."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.errors import ConfigError
from redqueen.report.compute import Spent, spent
from redqueen.report.run_view import Side
from redqueen.report.scores import (
    CROSSPLAY,
    accuracy,
    base_answers,
    mean_answers,
    paired,
    student_answers,
)

_ASIDE = (
    "seed",
    "steps",
    "device",
    "dtype",
    "ledger",
    "evaluate",
    "sandbox",
    "engine.max_num_seqs",
    "engine.max_tokens_per_microbatch",
    "engine.max_prefill_tokens",
)
"""Settings that do not make another arm."""
_MOST_TOLD, _LONGEST_NAME = 2, 60
"""An arm is named by the settings in which it differs, where these are few; else by the folder of
its first run."""
METRICS = {
    "solve/pass_rate": "solve rate", "verify/valid_frac": "valid proposals", "complexity/ast_depth": "depth of programs",
    "complexity/cyclomatic": "branches", "complexity/loc": "lines", "complexity/variables": "variables",
    "complexity/steps_executed": "lines executed",
    "coverage/cells": "different structures", "coverage/behaviours": "different behaviours",
    "propose/nll": "mean NLL per token, teachers", "solve/nll": "mean NLL per token, students",
}  # fmt: skip
_TAIL = 0.1
"""A metric at a step is its mean over this share of the steps before it, for one step is noisy."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One seed of one arm."""

    arm: str
    seed: int
    side: Side
    spent: Spent


def replicas(labelled: Sequence[tuple[str | None, Side]]) -> list[Replica]:
    """Sides with their arms: as labelled, as a study named them, or by the settings in which they
    differ."""
    names = _names([side for label, side in labelled if label is None and side.arm == "run"])
    found = [
        Replica(
            label or (side.arm if side.arm != "run" else names[id(side)]),
            side.seed,
            side,
            spent(side),
        )
        for label, side in labelled
    ]
    seen: dict[tuple[str, int], Side] = {}
    for one in found:
        if (one.arm, one.seed) in seen:
            raise ConfigError(
                f"{seen[one.arm, one.seed].folder} and {one.side.folder} are both seed {one.seed} of the arm '{one.arm}': a seed counts once. "
                "If they differ in something else, name them: NAME=FOLDER"
            )
        seen[one.arm, one.seed] = one.side
    return found


def _names(found: Sequence[Side]) -> dict[int, str]:
    settings = {id(side): _flat(side.config) for side in found}
    every = sorted({name for one in settings.values() for name in one})
    differing = [name for name in every if len({one.get(name) for one in settings.values()}) > 1]
    names: dict[int, str] = {}
    groups: dict[str, str] = {}
    for side in found:
        told = ", ".join(f"{name}={settings[id(side)].get(name, 'none')}" for name in differing)
        short = (
            told
            if len(differing) <= _MOST_TOLD and len(told) <= _LONGEST_NAME
            else side.folder.resolve().name
        )
        names[id(side)] = groups.setdefault(told, short or "run")
    return names


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in config.items():
        path = f"{prefix}{name}"
        if path in _ASIDE:
            continue
        if isinstance(value, dict):
            found |= _flat(value, f"{path}.")
        else:
            found[path] = json.dumps(value)
    return found


def outcomes(one: Replica, step: int) -> dict[str, float]:
    """What a replica had reached at a step, by name."""
    found = _scores(one.side, step)
    tail = max(1, int(_TAIL * step))
    for name, shown in METRICS.items():
        since = step if name.startswith("coverage/") else step - tail + 1
        query = "SELECT avg(value) FROM metrics WHERE world = :world AND name = :name AND step BETWEEN :since AND :step"
        (value,) = one.side.row(query, name=name, since=since, step=step)
        if value is not None:
            found[shown] = value
    return found


def _scores(side: Side, step: int) -> dict[str, float]:
    """The newest measurement up to a step."""
    found: dict[str, float] = {}
    query = """SELECT suite, max(step) AS step FROM evals
        WHERE world = :world AND step <= :step AND subject <> 'base' AND suite NOT LIKE :own GROUP BY suite"""
    for row in side.rows(query, step=step, own=f"{CROSSPLAY}%"):
        suite = row["suite"]
        students = list(student_answers(side, suite, row["step"]).values())
        if not students:  # teachers alone were asked
            continue
        found[f"{suite}: mean student"] = accuracy(mean_answers(students)).mean
        found[f"{suite}: weakest student"] = min(accuracy(answers).mean for answers in students)
        gained = paired(mean_answers(students), base_answers(side, suite))
        if gained is not None:
            found[f"{suite}: gain over the base"] = gained.mean
    return found


def compute(one: Replica, step: int) -> dict[str, float]:
    found = {
        "steps": float(step),
        "tokens written": one.spent.written[step],
        "tokens learned from": one.spent.learned[step],
        "tokens for each adapter": one.spent.tokens(step) / one.spent.members,
        "seconds": one.spent.seconds[step],
    }
    operations = one.spent.operations(step)
    return found if operations is None else {**found, "operations (FLOPs, estimated)": operations}
