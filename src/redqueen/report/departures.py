"""Where the reasoning of attempts departs from execution, for the problem browser. Programs run in
the sandbox: only on demand."""

import json
from typing import Any

from redqueen.errors import RedQueenError
from redqueen.evaluate.explain import trace_problems
from redqueen.records import Problem
from redqueen.report.run_view import RunView
from redqueen.sandbox import Sandbox
from redqueen.tasks import stored_kind
from redqueen.tasks.prompts import reasoning_of

MAX_PROBLEMS = 1000
_PROBLEM = "SELECT kind, payload, gold FROM problems WHERE world = :world AND problem = :problem"
_TEXTS = """SELECT text FROM attempts WHERE world = :world AND step = :step AND proposal = :number
    ORDER BY attempt"""


def mark_departures(view: RunView, items: list[dict[str, Any]], sandbox: Sandbox) -> None:
    """Adds to every attempt the first line of its reasoning that contradicts execution, from 1;
    None where there is none, or the kind has no trace."""
    shown = [(item, _load(view, item["problem"])) for item in items if item.get("attempts")]
    known = [(item, problem) for item, problem in shown if problem is not None][:MAX_PROBLEMS]
    outcomes = trace_problems([problem for _, problem in known], sandbox)
    for (item, problem), outcome in zip(known, outcomes, strict=True):
        kind = stored_kind(problem.kind)
        texts = view.rows(_TEXTS, step=item["step"], number=item["proposal"])
        for attempt, (text,) in zip(item["attempts"], texts, strict=True):
            reasoning = reasoning_of(text)
            attempt.append(kind.first_wrong_line(problem, reasoning, outcome))


def _load(view: RunView, key: str) -> Problem | None:
    for row in view.rows(_PROBLEM, problem=key):
        try:
            payload = stored_kind(row["kind"]).load_payload(json.loads(row["payload"]))
        except (RedQueenError, ValueError):
            return None
        return Problem(key, row["kind"], payload, tuple(map(str, json.loads(row["gold"]))), {})
    return None
