"""The curriculum as a data set that another trainer can use: every problem with its verified
answers, how hard it was, and where it comes from.

JSONL can be read back by `archive.seeds` and `fixed.source`; Parquet needs the extra `parquet`.
"""

import importlib
import importlib.util
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

from redqueen.errors import ConfigError
from redqueen.report.run_view import Side, rounded

Format = Literal["jsonl", "parquet"]
_BETA = 25 / 6


def export_problems(found: list[Side], folder: Path, form: Format) -> tuple[Path, int]:
    """All problems of these worlds in one file; its path and their number."""
    if form == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ConfigError(
            "Parquet needs pyarrow, which is not installed: pip install 'redqueen[parquet]', or leave out --format for JSONL"
        )
    folder.mkdir(parents=True, exist_ok=True)
    rows = (row for side in found for row in problems(side))
    path = folder / f"problems.{form}"
    return path, _write_jsonl(rows, path) if form == "jsonl" else _write_parquet(rows, path)


def problems(side: Side) -> Iterator[dict[str, Any]]:
    """In the order in which they were posed, each once."""
    answers = _answers(side)
    ratings = {
        (row["step"], row["member"]): row["mu"]
        for row in side.rows("SELECT step, member, mu FROM ratings WHERE world = :world")
    }
    ancestors = _ancestors(side)
    beta = side.setting("match.rating.beta", _BETA)
    query = """SELECT q.problem, q.kind, q.payload, q.gold, q.features, q.cell, q.structure, q.behaviour,
            p.step, p.teacher, m.student, p.shown
        FROM proposals p JOIN problems q ON q.world = p.world AND q.problem = p.problem
        JOIN pairings m ON m.world = p.world AND m.step = p.step AND m.pairing = p.pairing
        WHERE p.world = ? ORDER BY p.step, p.proposal"""
    seen: set[str] = set()
    for row in side.connection.execute(query, (side.world,)):
        if row["problem"] in seen:
            continue
        seen.add(row["problem"])
        attempts, right = answers.get(row["problem"], (0, 0))
        student = ratings.get((row["step"] - 1, row["student"]))
        yield {
            **{name: row[name] for name in ("problem", "kind", "step", "teacher", "student")},
            **json.loads(row["payload"]),
            "outputs": json.loads(row["gold"]),
            "attempts": attempts,
            "right": right,
            "solve_rate": right / attempts if attempts else None,
            "difficulty_rating": difficulty_rating(student, attempts, right, beta),
            "teacher_rating": rounded(ratings.get((row["step"] - 1, row["teacher"]))),
            "student_rating": rounded(student),
            "shown": json.loads(row["shown"]),
            "teacher_ancestors": ancestors.get(row["teacher"], []),
            **json.loads(row["features"]),
            **{name: row[name] for name in ("cell", "structure", "behaviour")},
            "world": side.world,
            "arm": side.arm,
            "seed": side.seed,
        }


def difficulty_rating(
    student: float | None, attempts: int, right: int, beta: float
) -> float | int | None:
    """The skill, on the scale of the ratings, that would solve the problem half of the time.

    From the student's rating before the step and its right answers, with half an answer added on
    either side: few attempts are no proof.
    """
    if student is None or not attempts:
        return None
    return rounded(
        student - math.sqrt(2) * beta * NormalDist().inv_cdf((right + 0.5) / (attempts + 1))
    )


def _answers(side: Side) -> dict[str, tuple[int, int]]:
    query = "SELECT problem, count(*) AS n, sum(verdict = 'correct') AS right FROM attempts WHERE world = :world GROUP BY problem"
    return {row["problem"]: (row["n"], row["right"]) for row in side.rows(query)}


def _ancestors(side: Side) -> dict[str, list[str]]:
    """All members that a member descends from, the nearest first."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in side.rows("SELECT member, parents FROM births WHERE world = :world ORDER BY step"):
        parents = json.loads(row["parents"])
        found[row["member"]] = list(
            dict.fromkeys([*parents, *(older for parent in parents for older in found[parent])])
        )
    return dict(found)


def _write_jsonl(rows: Iterator[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for count, row in enumerate(rows, 1):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return count


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path) -> int:
    table = importlib.import_module("pyarrow").Table.from_pylist(list(rows))
    importlib.import_module("pyarrow.parquet").write_table(table, path)
    return int(table.num_rows)
