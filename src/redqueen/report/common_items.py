"""What a comparison counts of each suite: the items that every run was measured on, so that a run
with another `limit` is not compared on other problems."""

from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.evaluate.replies import NOT_MEMBERS
from redqueen.report.run_view import RunView
from redqueen.report.scores import CROSSPLAY, Answers, answers_by_subject

STUDENTS = "students"
Items = Mapping[tuple[str, str], frozenset[str]]
"""By suite, and by subject or `STUDENTS`."""


def counted(items: Items | None, suite: str, subject: str, answers: Answers) -> Answers:
    """The answers that count; none where some of those items were not asked. Without `items` all
    do."""
    if items is None:
        return answers
    common = items.get((suite, subject), frozenset())
    return {item: answers[item] for item in sorted(common)} if common <= answers.keys() else {}


def common_items(named: Sequence[tuple[str, RunView]]) -> tuple[Items, list[str]]:
    """The items that all of these runs, each with its name, were last measured on where they have
    the suite; and what is left out for that, in sentences."""
    measured = [(name, _last_items(view)) for name, view in named]
    common: dict[tuple[str, str], frozenset[str]] = {}
    told: dict[tuple[str, str], list[str]] = {}
    for key in sorted({key for _, own in measured for key in own}):
        asked = [(name, own[key]) for name, own in measured if key in own]
        common[key] = frozenset.intersection(*(items for _, items in asked))
        left_out = [
            f"{len(items) - len(common[key])} of {name}"
            for name, items in asked
            if items != common[key]
        ]
        if left_out:
            what = _sentence(len(common[key]), left_out)
            told.setdefault((key[0], what), []).append(key[1])
    notes = [f"{suite} ({', '.join(subjects)}): {what}" for (suite, what), subjects in told.items()]
    return common, notes


def not_everywhere(rows: Sequence[dict[str, Any]], arms: Sequence[str]) -> list[str]:
    """Of suites, or of ways to sample them, that not all arms were measured with."""
    measured: dict[str, dict[str, None]] = {}
    for row in rows:
        suite, is_suite, _ = row["name"].partition(": ")
        if is_suite:
            measured.setdefault(suite, {}).update(dict.fromkeys(c["arm"] for c in row["arms"]))
    return [
        f"{suite}: measured in {', '.join(own)} only, so not compared with the others."
        for suite, own in measured.items()
        if len(own) < len(arms)
    ]


def _sentence(count: int, left_out: Sequence[str]) -> str:
    if not count:
        return "left out, since the runs have no items in common."
    items = "item that all runs were" if count == 1 else "items that all runs were"
    return f"compared on the {count} {items} asked; left out: {', '.join(left_out)}."


def _last_items(view: RunView) -> dict[tuple[str, str], frozenset[str]]:
    """By suite and subject, the items of the last measurement; of students those of all."""
    query = """SELECT DISTINCT suite, step, subject FROM evals
        WHERE world = :world AND step BETWEEN 1 AND :last AND suite NOT LIKE :own ORDER BY step"""
    last: dict[tuple[str, str], int] = {}
    for row in view.rows(query, last=view.last, own=f"{CROSSPLAY}%"):
        if row["subject"] not in view.teachers:
            last[row["suite"], _group(row["subject"])] = row["step"]
    answers = {
        place: answers_by_subject(view, *place)
        for place in {(suite, step) for (suite, _), step in last.items()}
    }
    return {
        (suite, group): frozenset.intersection(
            *(
                frozenset(own)
                for subject, own in answers[suite, step].items()
                if _group(subject) == group and subject not in view.teachers
            )
        )
        for (suite, group), step in last.items()
    }


def _group(subject: str) -> str:
    return subject if subject in NOT_MEMBERS else STUDENTS
