"""Scores on held-out suites and benchmarks with intervals, gains over the base by item, and the
strengths of each member."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.evaluate.replies import BASE, BASE_VOTE, CHOSEN, FORCED, NOT_MEMBERS, SOUP, VOTE
from redqueen.evaluate.statistics import mean, mean_interval, pass_at_k, score_interval
from redqueen.evaluate.summary import split
from redqueen.report.curriculum import ProposalCount
from redqueen.report.run_view import RunView, round_digits, slot_name

CROSSPLAY = "crossplay/"
"""Prefix of suites that are the run's own problems, up to a step."""
Answers = dict[str, float]
"""By item: the share of samples that are correct."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def as_json(self) -> list[float | int | None]:
        return [round_digits(self.mean), round_digits(self.low), round_digits(self.high)]


def accuracy(answers: Mapping[str, float]) -> Estimate:
    """Over items."""
    values = list(answers.values())
    return Estimate(mean(values), *score_interval(values))


def paired_gain(answers: Mapping[str, float], base: Mapping[str, float]) -> Estimate | None:
    """The mean difference over common items: items that both get right or wrong do not widen the
    interval."""
    common = sorted(answers.keys() & base.keys())
    gains = [answers[item] - base[item] for item in common]
    return Estimate(*mean_interval(gains)) if gains else None


def mean_answers(subjects: Sequence[Mapping[str, float]]) -> Answers:
    """The mean over subjects, by item."""
    common = set.intersection(*map(set, subjects)) if subjects else set()
    return {
        item: sum(answers[item] for answers in subjects) / len(subjects) for item in sorted(common)
    }


def answers_by_subject(view: RunView, suite: str, step: int) -> dict[str, Answers]:
    query = """SELECT subject, item, avg(correct) AS score FROM evals
        WHERE world = :world AND suite = :suite AND step = :step
        GROUP BY subject, item ORDER BY subject, item"""
    answers: dict[str, Answers] = defaultdict(dict)
    for row in view.rows(query, suite=suite, step=step):
        answers[row["subject"]][row["item"]] = row["score"]
    return dict(answers)


def student_answers(view: RunView, suite: str, step: int) -> dict[str, Answers]:
    """Without teachers, which `redqueen eval` measures too, and without what is no member."""
    return {
        name: answers
        for name, answers in answers_by_subject(view, suite, step).items()
        if name not in NOT_MEMBERS and name not in view.teachers
    }


def attempts_together(view: RunView, suite: str, step: int) -> int:
    """How many votes and attempts the students share: as many as the base or one of them made,
    and at least one each. 0 where not all students were measured."""
    query = """SELECT max(sample) + 1 AS n FROM evals
        WHERE world = :world AND suite = :suite AND step = :step AND subject = :subject"""
    students = list(student_answers(view, suite, step))
    if len(students) != view.setting("population.students", len(students)):
        return 0
    own = [view.row(query, suite=suite, step=step, subject=name)["n"] for name in (BASE, *students)]
    return max(len(students), *(n or 0 for n in own))


def union_answers(view: RunView, suite: str, step: int, k: int) -> Answers:
    """By item, the estimate that one of k attempts is correct, shared by the students."""
    query = """SELECT subject, item, count(*) AS n, sum(correct) AS correct FROM evals
        WHERE world = :world AND suite = :suite AND step = :step GROUP BY subject, item"""
    students = list(student_answers(view, suite, step))
    shares = dict(zip(students, split(k, len(students)), strict=True))
    missed: Answers = {}
    for row in view.rows(query, suite=suite, step=step):
        if each := shares.get(row["subject"]):
            chance = pass_at_k(row["n"], row["correct"], min(each, row["n"]))
            missed[row["item"]] = missed.get(row["item"], 1.0) * (1 - chance)
    return {item: 1 - chance for item, chance in missed.items()}


def base_answers(view: RunView, suite: str) -> Answers:
    """The base never changes, so the last measurement holds for every step."""
    query = """SELECT max(step) AS step FROM evals
        WHERE world = :world AND suite = :suite AND subject = 'base'"""
    step = view.row(query, suite=suite)["step"]
    return {} if step is None else answers_by_subject(view, suite, step).get("base", {})


def suites(view: RunView) -> list[dict[str, Any]]:
    """By suite: scores over steps, and the last measurement by subject."""
    rows = view.rows("SELECT DISTINCT suite FROM evals WHERE world = :world ORDER BY suite")
    return [_suite(view, row["suite"]) for row in rows if not row["suite"].startswith(CROSSPLAY)]


def crossplay(view: RunView) -> dict[str, Any]:
    """Students as of one step on problems up to another, where `redqueen crossplay` measured it."""
    query = """SELECT step, suite, count(*) AS n, sum(correct) AS correct FROM evals
        WHERE world = :world AND suite LIKE :suites GROUP BY step, suite"""
    cells = sorted(
        (row["step"], int(row["suite"].removeprefix(CROSSPLAY)), row["n"], row["correct"])
        for row in view.rows(query, suites=f"{CROSSPLAY}%")
    )
    return {
        "students": sorted({cell[0] for cell in cells}),
        "problems": sorted({cell[1] for cell in cells}),
        "cells": [list(cell) for cell in cells],
    }


def _suite(view: RunView, suite: str) -> dict[str, Any]:
    query = "SELECT DISTINCT step FROM evals WHERE world = :world AND suite = :suite ORDER BY step"
    steps = [row["step"] for row in view.rows(query, suite=suite)]
    base = base_answers(view, suite)
    lines: dict[str, list[Any]] = {"steps": [], "mean": [], "low": [], "high": [], "weakest": []}
    last: dict[str, Answers] = {}
    for step in steps:
        students = student_answers(view, suite, step)
        if not students:
            continue
        last = students
        together = Estimate(*mean_interval([*mean_answers([*students.values()]).values()]))
        lines["steps"].append(step)
        for name, value in zip(("mean", "low", "high"), together.as_json(), strict=True):
            lines[name].append(value)
        lines["weakest"].append(round_digits(min(accuracy(own).mean for own in students.values())))
    measured_last = bool(steps) and lines["steps"][-1:] == steps[-1:]
    return {
        "suite": suite,
        "step": steps[-1] if steps else 0,
        "lines": lines,
        "base": accuracy(base).as_json() if base else None,
        "items": len(base or next(iter(last.values()), {})),
        "subjects": [_subject(name, answers, base) for name, answers in last.items()],
        "products": _products(view, suite, steps[-1] if steps else 0, base),
        "students": _subject("students", mean_answers(list(last.values())), base) if last else None,
        "soup_over_mean": _soup_over_mean(view, suite, steps[-1], last) if measured_last else None,
        "tiers": _tiers(view, suite, steps[-1] if steps else 0),
        "agreement": agreement(last),
    }


def _products(view: RunView, suite: str, step: int, base: Answers) -> list[dict[str, Any]]:
    """What the population hands over, and the base with its reasoning forced. A vote gains over the
    base's vote, not over its single answer."""
    answers = answers_by_subject(view, suite, step)
    return [
        _subject(name, answers[name], answers.get(BASE_VOTE, {}) if name == VOTE else base)
        for name in (FORCED, SOUP, CHOSEN, VOTE)
        if name in answers and not _says_nothing(name, answers, base)
    ]


def _says_nothing(name: str, answers: Mapping[str, Answers], base: Answers) -> bool:
    """A base that always reasons is not changed by being made to; and a vote of greedy answers, on
    the items whose answers can be compared, has nothing to be compared with."""
    return (name == FORCED and answers[name] == base) or (name == VOTE and BASE_VOTE not in answers)


def _soup_over_mean(
    view: RunView, suite: str, step: int, students: Mapping[str, Answers]
) -> list[float | int | None] | None:
    """What merging gains; None where the soup was not measured beside several students."""
    soup = answers_by_subject(view, suite, step).get(SOUP)
    if not soup or len(students) < 2:
        return None
    gain = paired_gain(soup, mean_answers(list(students.values())))
    return gain.as_json() if gain else None


def _subject(name: str, answers: Answers, base: Answers) -> dict[str, Any]:
    gain = paired_gain(answers, base)
    return {
        "subject": name,
        "score": accuracy(answers).as_json(),
        "items": len(answers),
        "gain": gain.as_json() if gain else None,
    }


def _tiers(view: RunView, suite: str, step: int) -> list[list[Any]]:
    """By subject, kind and tier: answers and correct ones."""
    query = """SELECT subject, kind, tier, count(*) AS n, sum(correct) AS correct FROM evals
        WHERE world = :world AND suite = :suite AND step = :step
        GROUP BY subject, kind, tier ORDER BY subject, kind, tier"""
    rows = [list(row) for row in view.rows(query, suite=suite, step=step)]
    base, forced = ([row[1:] for row in rows if row[0] == name] for name in (BASE, FORCED))
    return [row for row in rows if row[0] != FORCED or base != forced]


def agreement(answers: dict[str, Answers]) -> dict[str, Any]:
    """For each pair of students: the share of items on which both are correct or both wrong, and
    Cohen's kappa, which corrects it for chance."""
    names = sorted(answers)
    pairs = []
    for number, first in enumerate(names):
        for second in names[number + 1 :]:
            common = sorted(answers[first].keys() & answers[second].keys())
            verdicts = [(answers[first][i] >= 0.5, answers[second][i] >= 0.5) for i in common]
            if verdicts:
                pairs.append([first, second, *_kappa(verdicts)])
    return {"subjects": names, "pairs": pairs}


def _kappa(verdicts: Sequence[tuple[bool, bool]]) -> tuple[float | None, float | None]:
    """The observed agreement, and kappa; None where chance alone explains it all."""
    n = len(verdicts)
    same = sum(first == second for first, second in verdicts) / n
    first, second = (sum(pair[which] for pair in verdicts) / n for which in (0, 1))
    chance = first * second + (1 - first) * (1 - second)
    kappa = round_digits((same - chance) / (1 - chance), 4) if chance < 1 else None
    return round_digits(same, 4), kappa


def by_kind(view: RunView, counts: list[ProposalCount], role: str) -> dict[str, Any]:
    """In the last quarter of the run, by slot of a role and by kind: problems attempted, and the
    sum of their solve rates."""
    since = view.windows.count * 3 // 4
    cells: dict[tuple[str, str], list[float]] = {}
    for one in counts:
        if one.valid and one.window >= since and one.outcome != "unattempted":
            member = one.teacher if role == "teacher" else one.student
            cell = cells.setdefault((slot_name(member), one.kind), [0, 0.0])
            cell[0] += one.count
            cell[1] += one.solved
    slots, kinds = sorted({slot for slot, _ in cells}), sorted({kind for _, kind in cells})
    return {
        "slots": slots,
        "kinds": kinds,
        "cells": [
            [slots.index(slot), kinds.index(kind), n, round_digits(solved)]
            for (slot, kind), (n, solved) in sorted(cells.items())
        ],
    }
