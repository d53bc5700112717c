"""All that a report shows of one side, as data: numbers and texts, nothing of how they look."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from redqueen.ledger.lock import is_held
from redqueen.ledger.store import reader
from redqueen.report import curriculum, curves, lineage, scores
from redqueen.report.findings import tell
from redqueen.report.run_view import Side, sides
from redqueen.report.sample import MOST_CHARS, problems


def gather_runs(folders: Sequence[Path], most_chars: int = MOST_CHARS) -> list[dict[str, Any]]:
    """Every world of every run, with problems of so many characters together. All figures of a run
    are of the same steps, also while it goes on."""
    opened = [contextlib.closing(reader(folder)) for folder in folders]
    with contextlib.ExitStack() as stack:
        found = []
        for folder, closing in zip(folders, opened, strict=True):
            connection = stack.enter_context(closing)
            connection.execute("BEGIN")
            found += sides(connection, folder)
        return [gather(side, most_chars // len(found)) for side in found]


def gather(side: Side, most_chars: int = MOST_CHARS) -> dict[str, Any]:
    found = curriculum.tallies(side)
    members = lineage.members(side)
    lines = curves.metrics(side)
    wanted = side.about.get("steps", "")
    every = side.setting("evolve.every", 0) or 0
    figures: dict[str, Any] = {
        "name": side.name,
        "arm": side.arm,
        "seed": side.seed,
        "about": {name: side.about.get(name, "") for name in ("base", "version", "created")}
        | {"machine": _machine(side)},
        "steps_done": side.last,
        "steps_wanted": int(wanted) if wanted.isdecimal() else None,
        "active": not side.about.get("ended")
        and is_held(
            side.folder
        ),  # a run that has ended writes its report while it still holds its lock
        "ended": side.about.get("ended", ""),
        "steps": side.windows.ends,
        "window": side.windows.size,
        "invented": any(one["role"] != "student" for one in members),
        "counts": _counts(side, found),
        "metrics": lines,
        "complexity_index": curves.complexity_index(lines),
        "ratings": curves.ratings(side),
        "matrix": curves.matrix(side),
        "timings": curves.timings(side),
        "updates": curves.updates(side),
        "members": members,
        "operators": lineage.operator_credit(members, side.last),
        "evolve_every": every,
        "culled_young": lineage.culled_young(members, every),
        "difficulty": curriculum.difficulty(side, found),
        "rejections": curriculum.rejections(side, found),
        "novelty": curriculum.novelty(side),
        "templates": curriculum.templates(side),
        "suites": scores.suites(side),
        "crossplay": scores.crossplay(side),
        "students_by_kind": scores.by_kind(side, found, "student"),
        "teachers_by_kind": scores.by_kind(side, found, "teacher"),
        "problems": problems(side, most_chars),
    }
    figures["story"] = [asdict(sentence) for sentence in tell(figures)]
    return figures


def _counts(side: Side, found: list[curriculum.Tally]) -> dict[str, int]:
    query = """SELECT coalesce(sum(attempts), 0) AS attempts, coalesce(sum(correct), 0) AS correct, count(winner) AS rated,
            coalesce(sum(winner = 'student'), 0) AS student_won FROM pairings WHERE world = :world"""
    (kept,) = side.row("SELECT count(*) FROM problems WHERE world = :world")
    tokens = side.rows(
        "SELECT name, sum(value) AS n FROM metrics WHERE world = :world AND name IN ('propose/tokens', 'solve/tokens') GROUP BY name"
    )
    (learned,) = side.row("SELECT coalesce(sum(tokens), 0) FROM updates WHERE world = :world")
    return {
        **dict(side.row(query)),
        "proposals": sum(one.count for one in found),
        "cut": sum(one.cut for one in found),
        "problems": kept,
        "tokens_written": int(sum(row["n"] for row in tokens)),
        "tokens_learned": learned,
    }


def _machine(side: Side) -> str:
    try:
        return str(json.loads(side.about.get("machine", "{}")).get("device", ""))
    except (ValueError, AttributeError):
        return side.about.get("machine", "")
