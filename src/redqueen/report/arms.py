"""Groups runs and worlds into the arms of a comparison: equal settings are one arm, and its seeds
are the replicates."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.errors import ConfigError
from redqueen.evaluate.replies import BASE, BASE_VOTE, CHOSEN, FORCED, SOUP, VOTE
from redqueen.report.common_items import STUDENTS, Items, counted
from redqueen.report.compute import Spent, measure_spent
from redqueen.report.run_view import RunView
from redqueen.report.scores import (
    CROSSPLAY,
    accuracy,
    answers_by_subject,
    attempts_together,
    base_answers,
    mean_answers,
    paired_gain,
    student_answers,
    union_answers,
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
_BEGIN_AS_BASE = ("mean student", "weakest student", SOUP, CHOSEN)
_NEAR = 0.05
"""Share of the tokens by which a measurement may miss the number that is asked for."""
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


def outcomes_at(replicate: Replicate, step: int, items: Items | None = None) -> dict[str, float]:
    """What a replicate had reached at a step, by name; on these items of a suite, or on all."""
    outcomes = _scores_at(replicate.view, step, items)
    tail = max(1, int(_TAIL * step))
    query = """SELECT avg(value) FROM metrics
        WHERE world = :world AND name = :name AND step BETWEEN :since AND :step"""
    for name, label in METRICS.items():
        since = step if name.startswith("coverage/") else step - tail + 1
        (value,) = replicate.view.row(query, name=name, since=since, step=step)
        if value is not None:
            outcomes[label] = value
    return outcomes


def _scores_at(view: RunView, step: int, items: Items | None) -> dict[str, float]:
    """The newest measurement up to a step, by suite."""
    query = """SELECT suite, max(step) AS step FROM evals
        WHERE world = :world AND step <= :step AND subject <> 'base' AND suite NOT LIKE :own
        GROUP BY suite"""
    scores: dict[str, float] = {}
    for suite, measured in view.rows(query, step=step, own=f"{CROSSPLAY}%"):
        for name, value in suite_scores(view, suite, measured, items).items():
            scores[f"{suite}: {name}"] = value
    return scores


def suite_scores(
    view: RunView, suite: str, step: int, items: Items | None = None
) -> dict[str, float]:
    """What was measured on a suite at a step: students, what the population hands over, and the
    base; votes and unions by the number of votes and attempts, so that only equal numbers are
    compared. `items`: those that count."""
    subjects = answers_by_subject(view, suite, step)
    asked = student_answers(view, suite, step)
    students = [counted(items, suite, STUDENTS, answers) for answers in asked.values()]
    if not students and SOUP not in subjects:  # only teachers were measured
        return {}
    scores: dict[str, float] = {}
    count = attempts_together(view, suite, step) if students else 0
    if students and all(students):
        together = mean_answers(students)
        scores["mean student"] = accuracy(together).mean
        scores["weakest student"] = min(accuracy(answers).mean for answers in students)
        if gain := paired_gain(together, base_answers(view, suite)):
            scores["gain over the base"] = gain.mean
        if count > 1:
            union = counted(items, suite, STUDENTS, union_answers(view, suite, step, count))
            scores[f"union pass@{count}"] = accuracy(union).mean
    names = {
        SOUP: SOUP,
        CHOSEN: CHOSEN,
        VOTE: f"vote of {count}",
        BASE_VOTE: f"base: vote of {count}",
        BASE: BASE,
        FORCED: FORCED,
    }
    for subject, name in names.items():
        if answers := counted(items, suite, subject, subjects.get(subject, {})):
            scores[name] = accuracy(answers).mean
    return scores


@dataclass(frozen=True, slots=True)
class Curve:
    """One outcome of one replicate over the tokens it was trained on."""

    tokens: list[float]
    values: list[float]

    def at(self, tokens: float) -> float | None:
        """Between two measurements by a straight line. None before the first one, or after the last
        one, where that is too far away: a world ends with the step that reaches its tokens."""
        if not (1 - _NEAR) * self.tokens[0] <= tokens <= (1 + _NEAR) * self.tokens[-1]:
            return None
        after = next((n for n, own in enumerate(self.tokens) if own >= tokens), None)
        if not after:
            return self.values[-1 if after is None else 0]
        low, high = self.tokens[after - 1], self.tokens[after]
        share = (tokens - low) / (high - low) if high > low else 1.0
        return self.values[after - 1] + share * (self.values[after] - self.values[after - 1])


def score_curves(replicate: Replicate, items: Items | None = None) -> dict[str, Curve]:
    """Every score of a suite over trained tokens, by name; on these items, or on all. Members begin
    as the base: where that is measured, and a suite more than once, curves begin with it."""
    view, trained = replicate.view, replicate.spent.trained
    query = """SELECT DISTINCT suite, step FROM evals
        WHERE world = :world AND step BETWEEN 1 AND :last AND suite NOT LIKE :own
        ORDER BY suite, step"""
    steps: dict[str, list[int]] = {}
    for row in view.rows(query, last=view.last, own=f"{CROSSPLAY}%"):
        steps.setdefault(row["suite"], []).append(row["step"])
    points: dict[str, list[tuple[float, float]]] = {}
    for suite, measured in steps.items():
        base = base_answers(view, suite)
        begin = {
            name: counted(items, suite, name if name in (SOUP, CHOSEN) else STUDENTS, base)
            for name in _BEGIN_AS_BASE
        }
        for step in measured:
            for name, value in suite_scores(view, suite, step, items).items():
                curve = points.setdefault(f"{suite}: {name}", [])
                if not curve and len(measured) > 1 and begin.get(name):
                    curve.append((0.0, accuracy(begin[name]).mean))
                curve.append((trained[step], value))
    return {
        name: Curve([tokens for tokens, _ in curve], [value for _, value in curve])
        for name, curve in points.items()
    }


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
