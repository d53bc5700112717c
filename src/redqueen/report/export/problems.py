"""The curriculum as a data set for other trainers: every problem with its gold answers, how hard it
was, and where it comes from.

JSONL can be read back by `archive.seeds` and `fixed.source`; Parquet needs the extra `parquet`.
"""

import importlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

from redqueen.errors import ConfigError
from redqueen.report.export.folder import check_empty, choose_world, fill
from redqueen.report.export.model_cards import data_card
from redqueen.report.run_view import Run, RunView, open_views, round_digits

Format = Literal["jsonl", "parquet"]
_BETA = 25 / 6
_PROBLEMS = """SELECT q.problem, q.kind, p.step, p.teacher, m.student, q.payload, q.gold,
        q.features, q.cell, q.structure, q.behaviour, p.shown
    FROM proposals p JOIN problems q ON q.world = p.world AND q.problem = p.problem
    LEFT JOIN pairings m ON m.world = p.world AND m.step = p.step AND m.pairing = p.pairing
    WHERE p.world = :world ORDER BY p.step, p.proposal"""
ATTEMPTS = """SELECT problem, count(*), sum(verdict = 'correct') FROM attempts
    WHERE world = :world AND verdict <> 'voided' GROUP BY problem"""
"""How many there were at each problem, and how many of them were correct."""


def export_problems(
    run: Run,
    out: str | Path,
    form: Format = "jsonl",
    world: int | None = None,
    *,
    license_id: str | None = None,
    everything: bool = False,
) -> Path:
    """Write the problems of a run with a card, and return the data file.

    - `run`: its folder, a reader, or the run itself.
    - `out`: the folder to write.
    - `form`: `jsonl`, or `parquet` (needs the extra `parquet`).
    - `world`: of one world of a study; by default of all.
    - `license_id`: the licence of the data; by default `apache-2.0` for what Pawn wrote, else
      `unknown`.
    - `everything`: keep problems that every attempt solved, or none.
    """
    from redqueen.report.export.questions import (
        card_license,
        license_of,
        list_questions,
        note_left_out,
        nothing_to_learn,
    )

    folder = check_empty(Path(out))
    if form == "parquet":
        _require_pyarrow()
    with open_views([run]) as views:
        chosen = views if world is None else [choose_world(views, world)]
        first = chosen[0]
        own_license = license_of(first, license_id)
        rows = []
        for view in chosen:
            questions = {
                question["id"]: {name: question[name] for name in _TO_TRAIN}
                for question in list_questions(view, own_license, everything=everything)
            }
            rows += [
                {**row, **questions[row["problem"]]}
                for row in list_problems(view)
                if row["problem"] in questions
            ]
        if not rows and not everything:
            raise ConfigError(nothing_to_learn(everything))
        if not everything:
            note_left_out(chosen)
    path = folder / f"problems.{form}"
    kinds = Counter(row["kind"] for row in rows)
    card = data_card(
        first.name,
        first.about.get("base", ""),
        first.last,
        path.name,
        kinds,
        card_license(own_license),
        everything=everything,
    )
    with fill(folder):
        (_write_jsonl if form == "jsonl" else _write_parquet)(rows, path)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return path


_TO_TRAIN = ("prompt", "answer", "difficulty", "license")
_COLUMNS = {
    *_TO_TRAIN,
    "problem", "kind", "step", "teacher", "student", "payload", "valid", "gold", "attempts",
    "correct", "solve_rate", "difficulty_rating", "teacher_rating", "student_rating", "shown",
    "teacher_ancestors", "cell", "structure", "behaviour", "world", "arm", "seed",
}  # fmt: skip
"""A payload with a field of one of these names, or of a feature, is a column of its own; others are
spread."""


def list_problems(view: RunView) -> Iterator[dict[str, Any]]:
    """In the order in which they were proposed, each once."""
    attempts = {key: (n, correct) for key, n, correct in view.rows(ATTEMPTS)}
    query = "SELECT step, member, mu FROM ratings WHERE world = :world"
    ratings = {(step, member): mu for step, member, mu in view.rows(query)}
    ancestors = _ancestors(view)
    beta = view.setting("rate.beta", _BETA)
    seen: set[str] = set()
    for row in view.rows(_PROBLEMS):
        if row["problem"] in seen:
            continue
        seen.add(row["problem"])
        n, correct = attempts.get(row["problem"], (0, 0))
        before = row["step"] - 1
        student = ratings.get((before, row["student"]))
        payload, features = json.loads(row["payload"]), json.loads(row["features"])
        yield {
            **{name: row[name] for name in ("problem", "kind", "step", "teacher", "student")},
            **({"payload": payload} if (_COLUMNS | features.keys()) & set(payload) else payload),
            "gold": json.loads(row["gold"]),
            "attempts": n,
            "correct": correct,
            "solve_rate": correct / n if n else None,
            "difficulty_rating": difficulty_rating(student, n, correct, beta),
            "teacher_rating": round_digits(ratings.get((before, row["teacher"]))),
            "student_rating": round_digits(student),
            "shown": json.loads(row["shown"]),
            "teacher_ancestors": ancestors.get(row["teacher"], []),
            **features,
            **{name: row[name] for name in ("cell", "structure", "behaviour")},
            "world": view.world,
            "arm": view.arm,
            "seed": view.seed,
        }


def difficulty_rating(
    student: float | None, attempts: int, correct: int, beta: float
) -> float | int | None:
    """The skill, on the scale of the ratings, that would solve the problem half of the time.

    From the student's rating before the step and its solve rate. Half an attempt is added on either
    side, so that few attempts do not give an infinite difficulty.
    """
    if student is None or not attempts:
        return None
    rate = (correct + 0.5) / (attempts + 1)
    return round_digits(student - math.sqrt(2) * beta * NormalDist().inv_cdf(rate))


def _ancestors(view: RunView) -> dict[str, list[str]]:
    """All ancestors of each member, the nearest first."""
    ancestors: dict[str, list[str]] = defaultdict(list)
    for member in view.run.births(view.world):
        parents = member["parents"]
        older = (ancestor for parent in parents for ancestor in ancestors[parent])
        ancestors[member["member"]] = list(dict.fromkeys([*parents, *older]))
    return dict(ancestors)


def _write_jsonl(rows: Iterable[dict[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _require_pyarrow() -> None:
    try:
        importlib.import_module("pyarrow")
    except ImportError as error:
        raise ConfigError(
            "Parquet needs pyarrow: pip install 'redqueen[parquet]', or use the format jsonl"
        ) from error


def _write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    """With the columns of all kinds: of rows of its own, pyarrow takes those of the first alone."""
    pyarrow = importlib.import_module("pyarrow")

    def column(name: str) -> Any:
        values = [row.get(name) for row in rows]
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # kinds differ in what it holds
            return pyarrow.array([None if one is None else json.dumps(one) for one in values])

    names = dict.fromkeys(name for row in rows for name in row)
    table = pyarrow.table({name: column(name) for name in names})
    importlib.import_module("pyarrow.parquet").write_table(table, path)
