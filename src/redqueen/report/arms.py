"""Groups runs and worlds into the arms of a comparison: equal settings are one arm, and its seeds
are the replicates."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.errors import ConfigError
from redqueen.report.compute import Spent, measure_spent
from redqueen.report.run_view import RunView
from redqueen.report.scores import (
    CROSSPLAY,
    accuracy,
    base_answers,
    mean_answers,
    paired_gain,
    student_answers,
)

_NOT_AN_ARM = (
    "seed",
    "steps",
    "device",
    "dtype",
    "trackers",
    "ledger",
    "evaluate",
    "sandbox",
    "engine.max_num_seqs",
    "engine.decode_steps_per_sync",
    "engine.max_prefill_tokens",
    "engine.max_tokens_per_microbatch",
    "engine.share_prompts",
    "engine.gradient_checkpointing",
)
"""Settings and sections that do not change what is learned."""
_MAX_NAMED, _MAX_NAME = 2, 60
"""An arm is named by the settings in which it differs, if they are few and short; else by the
folder of its first run."""
METRICS = {
    "solve/pass_rate": "solve rate",
    "verify/valid_frac": "valid proposals",
    "complexity/ast_depth": "AST depth",
    "complexity/cyclomatic": "cyclomatic complexity",
    "complexity/loc": "lines of code",
    "complexity/variables": "variables",
    "complexity/steps_executed": "lines executed",
    "coverage/cells": "coverage cells",
    "coverage/behaviours": "different behaviours",
    "propose/nll": "mean NLL per token, teachers",
    "solve/nll": "mean NLL per token, students",
}
_TAIL = 0.1
"""A metric at a step is the mean over this share of the steps before: single steps are noisy."""


@dataclass(frozen=True, slots=True)
class Replicate:
    """One seed of one arm."""

    arm: str
    seed: int
    view: RunView
    spent: Spent


def group_replicates(labelled: Sequence[tuple[str | None, RunView]]) -> list[Replicate]:
    """Name the arm of each view: its label, its arm in a study, or the settings that differ."""
    names = _arm_names([view for label, view in labelled if label is None and view.arm == "run"])
    replicates = []
    seen: dict[tuple[str, int], RunView] = {}
    for label, view in labelled:
        arm = label or (view.arm if view.arm != "run" else names[id(view)])
        if twin := seen.get((arm, view.seed)):
            raise ConfigError(
                f"{twin.folder} and {view.folder} are both seed {view.seed} of the arm '{arm}', "
                "and a seed counts once. If they differ otherwise, name them: NAME=FOLDER"
            )
        seen[arm, view.seed] = view
        replicates.append(Replicate(arm, view.seed, view, measure_spent(view)))
    return replicates


def _arm_names(views: Sequence[RunView]) -> dict[int, str]:
    settings = {id(view): _flatten(view.settings) for view in views}
    every = sorted({name for values in settings.values() for name in values})
    differing = [
        name for name in every if len({values.get(name) for values in settings.values()}) > 1
    ]
    names: dict[int, str] = {}
    groups: dict[str, str] = {}
    for view in views:
        own = settings[id(view)]
        difference = ", ".join(f"{name}={own.get(name, 'none')}" for name in differing)
        is_short = len(differing) <= _MAX_NAMED and len(difference) <= _MAX_NAME
        name = difference if is_short else view.folder.resolve().name
        names[id(view)] = groups.setdefault(difference, name or "run")
    return names


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in settings.items():
        path = f"{prefix}{name}"
        if path in _NOT_AN_ARM:
            continue
        if isinstance(value, dict):
            flat |= _flatten(value, f"{path}.")
        else:
            flat[path] = json.dumps(value)
    return flat


def outcomes_at(replicate: Replicate, step: int) -> dict[str, float]:
    """What a replicate had reached at a step, by name."""
    outcomes = _scores_at(replicate.view, step)
    tail = max(1, int(_TAIL * step))
    query = """SELECT avg(value) FROM metrics
        WHERE world = :world AND name = :name AND step BETWEEN :since AND :step"""
    for name, label in METRICS.items():
        since = step if name.startswith("coverage/") else step - tail + 1
        (value,) = replicate.view.row(query, name=name, since=since, step=step)
        if value is not None:
            outcomes[label] = value
    return outcomes


def _scores_at(view: RunView, step: int) -> dict[str, float]:
    """The newest measurement up to a step, by suite."""
    query = """SELECT suite, max(step) AS step FROM evals
        WHERE world = :world AND step <= :step AND subject <> 'base' AND suite NOT LIKE :own
        GROUP BY suite"""
    scores: dict[str, float] = {}
    for suite, measured in view.rows(query, step=step, own=f"{CROSSPLAY}%"):
        students = list(student_answers(view, suite, measured).values())
        if not students:  # only teachers were measured
            continue
        scores[f"{suite}: mean student"] = accuracy(mean_answers(students)).mean
        scores[f"{suite}: weakest student"] = min(accuracy(answers).mean for answers in students)
        gain = paired_gain(mean_answers(students), base_answers(view, suite))
        if gain is not None:
            scores[f"{suite}: gain over the base"] = gain.mean
    return scores


def compute_at(replicate: Replicate, step: int) -> dict[str, float]:
    """What a replicate had spent at a step, by name."""
    spent = replicate.spent
    costs = {
        "steps": float(step),
        "tokens sampled": spent.sampled[step],
        "tokens trained on": spent.trained[step],
        "tokens per adapter": spent.tokens(step) / spent.members,
        "seconds": spent.seconds[step],
    }
    flops = spent.flops(step)
    return costs if flops is None else {**costs, "FLOPs (estimated)": flops}
