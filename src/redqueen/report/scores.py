"""Held-out and benchmark scores with their intervals, what was gained over the base item by item,
and which member is good at what."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.evaluate.statistics import Accuracy
from redqueen.report.curriculum import Tally
from redqueen.report.run_view import Side, rounded

_Z95 = 1.959964
CROSSPLAY = "crossplay/"
"""Suites of this name are the run's own problems of the steps up to a step."""
Answers = dict[str, dict[str, float]]
"""By subject and item: the share of samples that are right."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def as_json(self) -> list[float | int | None]:
        return [rounded(self.mean), rounded(self.low), rounded(self.high)]


def accuracy(answers: Mapping[str, float]) -> Estimate:
    """Over items. Wilson's interval where every item was answered once, else that of a mean."""
    values = list(answers.values())
    if all(value in (0.0, 1.0) for value in values):
        found = Accuracy(round(sum(values)), len(values))
        return Estimate(found.value, *found.interval())
    return mean_estimate(values)


def mean_estimate(values: Sequence[float]) -> Estimate:
    centre = math.fsum(values) / len(values)
    spread = math.sqrt(
        math.fsum((value - centre) ** 2 for value in values) / max(1, len(values) - 1) / len(values)
    )
    return Estimate(centre, centre - _Z95 * spread, centre + _Z95 * spread)


def paired(answers: Mapping[str, float], base: Mapping[str, float]) -> Estimate | None:
    """The mean difference over the items that both answered: what both get right or wrong does not
    widen the interval."""
    common = sorted(answers.keys() & base.keys())
    return mean_estimate([answers[item] - base[item] for item in common]) if common else None


def mean_answers(some: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean over subjects, item by item."""
    common = set.intersection(*(set(answers) for answers in some)) if some else set()
    return {item: sum(answers[item] for answers in some) / len(some) for item in sorted(common)}


def answers_of(side: Side, suite: str, step: int) -> Answers:
    found: Answers = defaultdict(dict)
    query = """SELECT subject, item, avg(correct) AS right FROM evals WHERE world = :world AND suite = :suite AND step = :step
        GROUP BY subject, item ORDER BY subject, item"""
    for row in side.rows(query, suite=suite, step=step):
        found[row["subject"]][row["item"]] = row["right"]
    return dict(found)


def student_answers(side: Side, suite: str, step: int) -> Answers:
    """Of those that solve problems: `redqueen eval` asks teachers too."""
    return {
        name: found
        for name, found in answers_of(side, suite, step).items()
        if name != "base" and name not in side.teachers
    }


def base_answers(side: Side, suite: str) -> dict[str, float]:
    """The base never changes: whatever was measured last."""
    query = "SELECT max(step) AS step FROM evals WHERE world = :world AND suite = :suite AND subject = 'base'"
    step = side.row(query, suite=suite)["step"]
    return {} if step is None else answers_of(side, suite, step).get("base", {})


def suites(side: Side) -> list[dict[str, Any]]:
    """For each suite: scores over steps, and the last measurement subject by subject."""
    names = [
        row["suite"]
        for row in side.rows("SELECT DISTINCT suite FROM evals WHERE world = :world ORDER BY suite")
    ]
    return [_suite(side, name) for name in names if not name.startswith(CROSSPLAY)]


def crossplay(side: Side) -> dict[str, Any]:
    """Students of one time on problems of another, where `redqueen crossplay` has measured it:
    answers and right ones."""
    query = """SELECT step, suite, count(*) AS n, sum(correct) AS right FROM evals WHERE world = :world AND suite LIKE :suites GROUP BY step, suite"""
    rows = side.rows(query, suites=f"{CROSSPLAY}%")
    cells = sorted(
        (row["step"], int(row["suite"].removeprefix(CROSSPLAY)), row["n"], row["right"])
        for row in rows
    )
    return {
        "students": sorted({cell[0] for cell in cells}),
        "problems": sorted({cell[1] for cell in cells}),
        "cells": [list(cell) for cell in cells],
    }


def _suite(side: Side, suite: str) -> dict[str, Any]:
    steps = [
        row["step"]
        for row in side.rows(
            "SELECT DISTINCT step FROM evals WHERE world = :world AND suite = :suite ORDER BY step",
            suite=suite,
        )
    ]
    base = base_answers(side, suite)
    lines: dict[str, list[Any]] = {"steps": [], "mean": [], "low": [], "high": [], "weakest": []}
    last: Answers = {}
    for step in steps:
        students = student_answers(side, suite, step)
        if not students:
            continue
        last, together = (
            students,
            mean_estimate(list(mean_answers(list(students.values())).values())),
        )
        lines["steps"].append(step)
        for name, value in zip(("mean", "low", "high"), together.as_json(), strict=True):
            lines[name].append(value)
        lines["weakest"].append(rounded(min(accuracy(found).mean for found in students.values())))
    return {
        "suite": suite,
        "lines": lines,
        "base": accuracy(base).as_json() if base else None,
        "items": len(base or next(iter(last.values()), {})),
        "subjects": [_subject(name, found, base) for name, found in last.items()],
        "students": _subject("students", mean_answers(list(last.values())), base) if last else None,
        "tiers": _tiers(side, suite, steps[-1] if steps else 0),
        "agreement": agreement(last),
    }


def _subject(name: str, answers: Mapping[str, float], base: Mapping[str, float]) -> dict[str, Any]:
    gained = paired(answers, base) if base else None
    return {
        "subject": name,
        "score": accuracy(answers).as_json(),
        "gain": gained.as_json() if gained else None,
    }


def _tiers(side: Side, suite: str, step: int) -> list[list[Any]]:
    """By subject, kind and tier: answers and right ones."""
    query = """SELECT subject, kind, tier, count(*) AS n, sum(correct) AS right FROM evals
        WHERE world = :world AND suite = :suite AND step = :step GROUP BY subject, kind, tier ORDER BY subject, kind, tier"""
    return [list(row) for row in side.rows(query, suite=suite, step=step)]


def agreement(answers: Answers) -> dict[str, Any]:
    """For each pair of students: on how many items they agree, right or wrong, and Cohen's kappa,
    which leaves out what chance would give."""
    names = sorted(answers)
    pairs = []
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            common = answers[one].keys() & answers[other].keys()
            if common:
                pairs.append(
                    [
                        one,
                        other,
                        *_agree(
                            [
                                (answers[one][item] >= 0.5, answers[other][item] >= 0.5)
                                for item in sorted(common)
                            ]
                        ),
                    ]
                )
    return {"subjects": names, "pairs": pairs}


def _agree(both: Sequence[tuple[bool, bool]]) -> tuple[float | None, float | None]:
    n = len(both)
    same = sum(one == other for one, other in both) / n
    first, second = (sum(pair[which] for pair in both) / n for which in (0, 1))
    chance = first * second + (1 - first) * (1 - second)
    return rounded(same, 4), rounded((same - chance) / (1 - chance), 4) if chance < 1 else None


def by_kind(side: Side, found: list[Tally], role: str) -> dict[str, Any]:
    """In the last quarter of the run: for each place of a role and each kind, valid problems
    attempted and the sum of their solve rates."""
    since = side.windows.count * 3 // 4
    cells: dict[tuple[str, str], list[float]] = {}
    for one in found:
        if one.valid and one.window >= since and one.outcome != "unattempted":
            member = one.teacher if role == "teacher" else one.student
            cell = cells.setdefault((side.places.get(member, member), one.kind), [0, 0.0])
            cell[0] += one.count
            cell[1] += one.solved
    places, kinds = sorted({place for place, _ in cells}), sorted({kind for _, kind in cells})
    return {
        "places": places,
        "kinds": kinds,
        "since": since * side.windows.size + 1,
        "cells": [
            [places.index(place), kinds.index(kind), n, rounded(solved)]
            for (place, kind), (n, solved) in sorted(cells.items())
        ],
    }
