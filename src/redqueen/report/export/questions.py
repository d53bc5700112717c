"""Problems as other trainers take them: the messages of the question, a correct answer, how hard it
was, and a licence."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from redqueen.models.bundled import BUNDLED
from redqueen.records import Problem
from redqueen.report.export.problems import ATTEMPTS, list_problems
from redqueen.report.run_view import RunView
from redqueen.tasks import stored_kind
from redqueen.tasks.kind import TaskKind, load_problem
from redqueen.tasks.prompts import stored_prompt_format

log = logging.getLogger(__name__)

UNKNOWN_LICENSE = "unknown"
_PROBLEMS = """SELECT problem AS key, kind, payload, gold, features FROM problems
    WHERE world = :world AND step > 0 ORDER BY step, problem"""
_PROPOSED = """SELECT DISTINCT problem FROM proposals
    WHERE world = :world AND problem IS NOT NULL"""


def list_questions(
    view: RunView, license_id: str, *, everything: bool = False, form: str = "chat"
) -> Iterator[dict[str, Any]]:
    """Each problem once, in the prompt format `form`. A problem that nobody or everybody solved
    teaches nothing: it is left out unless `everything` is asked for."""
    about = {row["problem"]: row for row in list_problems(view)}
    for stored in view.rows(_PROBLEMS):
        known = about.get(stored["key"])
        if known is None:
            continue
        rate = known["solve_rate"]
        if everything or (rate is not None and 0 < rate < 1):
            yield {
                **_question(dict(stored), form),
                "solve_rate": rate,
                "difficulty": None if rate is None else 1 - rate,
                "difficulty_rating": known["difficulty_rating"],
                "license": license_id,
            }


def note_left_out(views: Iterable[RunView]) -> None:
    """Say how many problems of these worlds teach nothing."""
    found = left_out = 0
    for view in views:
        proposed = {key for (key,) in view.rows(_PROPOSED)}
        found += len(proposed)
        left_out += len(proposed - {key for key, n, k in view.rows(ATTEMPTS) if 0 < k < n})
    if left_out:
        log.info(
            "%s of %s problems are left out: every attempt solved them, or none. `--all` keeps "
            "them.",
            f"{left_out:,}",
            f"{found:,}",
        )


def nothing_to_learn(everything: bool) -> str:
    """Why an export would have no rows."""
    if everything:
        return "there is nothing to export: no problem has such an attempt"
    return (
        "there is nothing to export: no problem was solved sometimes. `--all` keeps those that "
        "every attempt solved, or none."
    )


def license_of(view: RunView, given: str | None) -> str:
    """What Pawn writes is free as the package is; of other bases, only their users know."""
    return given or ("apache-2.0" if view.about.get("base") in BUNDLED else UNKNOWN_LICENSE)


def card_license(license_id: str) -> str:
    """As a card on the hub names it."""
    return "other" if license_id == UNKNOWN_LICENSE else license_id


def _question(stored: Mapping[str, Any], form: str) -> dict[str, Any]:
    fields = {
        **{name: stored[name] for name in ("key", "kind")},
        **{name: json.loads(stored[name]) for name in ("payload", "gold", "features")},
        "author": None,
        "step": 0,
    }
    kind = stored_kind(fields["kind"])
    problem = load_problem(fields, kind)
    return {
        "id": fields["key"],
        "kind": fields["kind"],
        "prompt": _messages(kind, problem, form),
        "answer": correct_answer(kind, problem),
        "problem": json.dumps(fields, ensure_ascii=False),
    }


def correct_answer(kind: TaskKind, problem: Problem) -> str:
    """What a student could have written: there may be other correct answers."""
    shown = dict(reversed(kind.show(problem)))  # of several pairs, the first
    parts = [shown[label] for label in kind.answer_blocks if label in shown]
    return "\n".join(parts) or "\n".join(problem.gold)


def _messages(kind: TaskKind, problem: Problem, form: str) -> list[dict[str, str]]:
    prompt = stored_prompt_format(form).render(kind.ask_answer(problem))
    messages = [] if prompt.system is None else [_message("system", prompt.system)]
    for asked, replied in prompt.before:
        messages += [_message("user", asked), _message("assistant", replied)]
    return [*messages, _message("user", prompt.text)]


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
