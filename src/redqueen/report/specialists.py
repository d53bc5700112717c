"""Who is good at what, over time: the common exams by student, task kind and difficulty. All
students answered the same problems, so that they can be compared."""

from typing import Any

from redqueen.report.run_view import RunView

MAX_EXAMS = 6
_STEPS = "SELECT DISTINCT step FROM exams WHERE world = :world ORDER BY step"
_QUERY = """WITH solved AS (
        SELECT problem, sum(correct) * 1.0 / sum(attempts) AS rate FROM exams
        WHERE world = :world AND step = :step GROUP BY problem)
    SELECT e.member, coalesce(p.kind, 'seed') AS kind,
        CASE WHEN s.rate < 0.5 THEN 'hard' ELSE 'easy' END AS level,
        sum(e.attempts) AS attempts, sum(e.correct) AS correct
    FROM exams e JOIN solved s ON s.problem = e.problem
    LEFT JOIN problems p ON p.world = e.world AND p.problem = e.problem
    WHERE e.world = :world AND e.step = :step
    GROUP BY e.member, kind, level ORDER BY e.member, kind, level"""


def specialists(view: RunView) -> list[dict[str, Any]]:
    """Some of the exams, evenly spaced, the last one among them. A problem is hard where the
    students together solve less than half of it; `seed`: it was there from the beginning."""
    steps = [row["step"] for row in view.rows(_STEPS)]
    count = min(MAX_EXAMS, len(steps))
    shown = [steps[(place + 1) * len(steps) // count - 1] for place in range(count)]
    return [_exam(view, step) for step in shown]


def _exam(view: RunView, step: int) -> dict[str, Any]:
    rows = view.rows(_QUERY, step=step)
    members = sorted({row["member"] for row in rows})
    columns = sorted({f"{row['kind']} {row['level']}" for row in rows})
    return {
        "step": step,
        "members": members,
        "columns": columns,
        "cells": [
            [
                members.index(row["member"]),
                columns.index(f"{row['kind']} {row['level']}"),
                row["attempts"],
                row["correct"],
            ]
            for row in rows
        ],
    }
