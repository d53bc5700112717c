"""A router: each task kind is asked of the student whom the exam says is best at it.

By the run's own exams alone, never by held-out data. A student's score for a kind is drawn
toward its score over all kinds, as if by a few problems more: an exam has few of each kind.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from redqueen.errors import ConfigError
from redqueen.evaluate.replies import ROUTER, Model
from redqueen.ledger.store import open_to_read

_PRIOR = 6
"""Problems that a student's overall score counts as, beside those of a kind."""
_QUERY = """SELECT e.member, p.kind, sum(e.correct) * 1.0 / sum(e.attempts) AS score,
        count(*) AS problems
    FROM exams e JOIN problems p ON p.world = e.world AND p.problem = e.problem
    WHERE e.world = :world AND e.step = :step GROUP BY e.member, p.kind"""
_SEEDS = """SELECT member, sum(correct) * 1.0 / sum(attempts) FROM exams
    WHERE world = :world AND step = :step GROUP BY member"""
_LAST = "SELECT max(step) FROM exams WHERE world = :world AND member IN ({marks})"


def routed(models: Sequence[Model], folder: Path) -> list[Model]:
    """One model for each world, which asks others by kind: their slots are those of `models`. Other
    models stay."""
    others = [model for model in models if not model.is_solver]
    routers = []
    for world in dict.fromkeys(model.world for model in models if model.is_solver):
        students = [model for model in models if model.is_solver and model.world == world]
        best, by_kind = read_routes(folder, world, [model.member for model in students])
        slots = {model.member: model.slot for model in students}
        first = next(model for model in students if model.member == best)
        routers.append(
            replace(
                first,
                name=first.name.removesuffix(first.member) + ROUTER,
                member=ROUTER,
                role=ROUTER,
                chosen=False,
                routes=tuple((kind, slots[name]) for kind, name in sorted(by_kind.items())),
            )
        )
    return [*routers, *others]


def read_routes(folder: Path, world: int, students: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The best of these students in the last exam that one of them took, overall and by kind."""
    marks = ", ".join("?" for _ in students)
    with closing(open_to_read(folder)) as connection:
        last = _LAST.replace(":world", "?").format(marks=marks)
        ((step,),) = connection.execute(last, [world, *students]).fetchall()
        where = {"world": world, "step": step}
        rows = [tuple(row) for row in connection.execute(_QUERY, where)]
        scored = [tuple(row) for row in connection.execute(_SEEDS, where)]
    overall: dict[str, float] = {name: score for name, score in scored if name in students}
    if not overall:
        raise ConfigError(
            f"a router follows the exams of a run, and none of {', '.join(students)} has taken one "
            "in this run: see evolve.every and evolve.exam.problems"
        )
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for member, kind, score, problems in rows:
        if member in overall:
            total = problems * score + _PRIOR * overall[member]
            scores[kind][member] = total / (problems + _PRIOR)
    best = max(sorted(overall), key=lambda name: overall[name])
    return best, {
        kind: max(sorted(own), key=lambda name: (own[name], overall[name]))
        for kind, own in scores.items()
    }
