"""Fitness against skill: does what members are selected by say how good they are?"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from redqueen.report.run_view import RunView, round_digits

_QUERY = """
    SELECT f.step, f.member, f.measure, f.fitness, f.exam,
        coalesce(d.mu - 3 * d.sigma, r.mu - 3 * r.sigma) AS rating,
        (SELECT avg(correct) FROM evals e WHERE e.world = f.world AND e.step = f.step
            AND e.subject = f.member AND e.suite NOT LIKE 'crossplay/%'
            AND e.suite NOT LIKE 'eval/%') AS heldout
    FROM fitness f
    LEFT JOIN ratings r ON r.world = f.world AND r.step = f.step AND r.member = f.member
    LEFT JOIN deaths d ON d.world = f.world AND d.step = f.step AND d.member = f.member
    WHERE f.world = :world AND f.role != 'teacher' ORDER BY f.step, f.member"""
_PAIRS = (
    ("fitness", "exam"),
    ("rating", "exam"),
    ("fitness", "heldout"),
    ("exam", "heldout"),
)
NAMES = {"exam": "exam", "heldout": "held-out", "rating": "rating", "fitness": "fitness"}
_LEAST = 3
"""Students that a rank correlation takes."""


def selection(view: RunView) -> dict[str, Any]:
    """Every student at every ranking, and rank correlations within rankings."""
    rows = [dict(row) for row in view.rows(_QUERY)]
    correlations = []
    for first, second in _PAIRS:
        # a rank by the exam agrees with the exam by construction
        compared = [
            row
            for row in rows
            if (first, second) != ("fitness", "exam") or row["measure"] != "exam"
        ]
        if found := rank_correlation(compared, first, second):
            value, rankings = found
            correlations.append(
                {
                    "name": f"{NAMES[first]}, {NAMES[second]}",
                    "value": round_digits(value, 3),
                    "rankings": rankings,
                }
            )
    points = [
        {
            name: round_digits(value) if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in rows
    ]
    return {"points": points, "correlations": correlations}


def rank_correlation(
    rows: Sequence[dict[str, Any]], first: str, second: str
) -> tuple[float, int] | None:
    """Spearman's, within each ranking, averaged over those in which enough students differ; and
    their number."""
    by_step: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row[first] is not None and row[second] is not None:
            by_step[row["step"]].append((row[first], row[second]))
    values = []
    for pairs in by_step.values():
        ranks = [_ranks(side) for side in zip(*pairs, strict=True)]
        if len(pairs) >= _LEAST and all(len(set(side)) > 1 for side in ranks):
            values.append(_correlation(*ranks))
    return (sum(values) / len(values), len(values)) if values else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Equal values share their mean rank."""
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    middle = (len(xs) - 1) / 2
    both = sum((x - middle) * (y - middle) for x, y in zip(xs, ys, strict=True))
    spread = sum((x - middle) ** 2 for x in xs) * sum((y - middle) ** 2 for y in ys)
    return float(both / spread**0.5)
