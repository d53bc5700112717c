"""Attempts of a run as pairs to judge: what `redqueen eval --suite FILE` measures critics on.

Of every problem that has a correct and a wrong attempt, one of each, in turns: half of the pairs
are correct, and a limit keeps it so.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redqueen.errors import ConfigError
from redqueen.report.export.folder import check_empty, fill
from redqueen.report.run_view import Run, RunView, open_views
from redqueen.rng import stream
from redqueen.tasks import stored_kind
from redqueen.tasks.games.game import answer_in
from redqueen.tasks.prompts import reasoning_of, stored_prompt_format

FILE = "attempts.jsonl"
_SOLVED_SOMETIMES = """
    SELECT q.problem, q.kind, q.payload, q.gold, q.features,
        group_concat(CASE WHEN a.verdict = 'correct' THEN a.rowid END) AS correct,
        group_concat(CASE WHEN a.verdict = 'wrong' THEN a.rowid END) AS wrong
    FROM problems q JOIN attempts a ON a.world = q.world AND a.problem = q.problem
    WHERE q.world = :world GROUP BY q.problem HAVING correct IS NOT NULL AND wrong IS NOT NULL
    ORDER BY q.step, q.problem"""
_ATTEMPT = "SELECT student, version, step, text, verdict FROM attempts WHERE rowid = :row"


def export_judged(run: Run, out: str | Path, world: int | None = None) -> Path:
    """Write pairs of a problem and an attempt of a run, or of one of its worlds; returns the data
    file."""
    folder = check_empty(Path(out))
    with open_views([run]) as views:
        chosen = [view for view in views if world in (None, view.world)]
        rows = [row for view in chosen for row in list_attempts(view)]
    if not rows:
        raise ConfigError(
            "no problem was solved sometimes: there is no pair of a correct and a wrong attempt. "
            "`--world` chooses a world, from 0."
        )
    with fill(folder), (folder / FILE).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return folder / FILE


def list_attempts(view: RunView) -> Iterator[dict[str, Any]]:
    style = view.setting("tasks.prompt_format", "auto")
    for problem in view.rows(_SOLVED_SOMETIMES):
        kind, rng = stored_kind(problem["kind"]), stream(0, "export", problem["problem"])
        for verdict in ("correct", "wrong"):
            row = rng.choice(sorted(map(int, problem[verdict].split(","))))
            attempt = view.row(_ATTEMPT, row=row)
            text = attempt["text"]
            own = ("compact" if text.startswith(">>") else "chat") if style == "auto" else style
            yield {
                "kind": problem["kind"],
                "problem": problem["problem"],
                "payload": json.loads(problem["payload"]),
                "gold": json.loads(problem["gold"]),
                "features": json.loads(problem["features"]),
                "reasoning": reasoning_of(text),
                "answer": answer_in(text, kind, stored_prompt_format(own)),
                "verdict": attempt["verdict"],
                "student": attempt["student"],
                "version": attempt["version"],
                "step": attempt["step"],
                "world": view.world,
            }
