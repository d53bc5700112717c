"""What people did with a run: who posed, vetoed, rated and answered what, what came of it, and
which teachers they prefer."""

import contextlib
import json
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from redqueen.errors import ConfigError
from redqueen.ledger.people import Inbox
from redqueen.report.run_view import RunView, round_digits
from redqueen.stages.reward.people import fit_bradley_terry
from redqueen.tasks import TaskKind, stored_kind

MAX_ROWS = 200
"""Of what people did, the newest; the ledger has all."""
_MAX_CHARS = 300


def people(view: RunView) -> dict[str, Any]:
    rows = [
        {**dict(row), "content": json.loads(row["content"])}
        for row in view.rows("SELECT * FROM people WHERE world = :world ORDER BY step, number")
    ]
    return {
        "total": len(rows),
        "rows": [_show(row) for row in rows[-MAX_ROWS:][::-1]],
        "waiting": [
            {
                "author": action.author,
                "action": action.action,
                "what": _what(action.action, action.content),
            }
            for action in Inbox(view.folder, logging.DEBUG).waiting()
            if action.world == view.world
        ],
        "teachers": _rank_teachers(
            view, [row["content"] for row in rows if row["outcome"] == "counted"]
        ),
        "weight": view.setting("reward.people_weight", 0),
        "kinds": _kinds(view),
    }


def _show(row: dict[str, Any]) -> dict[str, Any]:
    names = ("step", "author", "action", "outcome")
    what = _what(row["action"], row["content"])
    return {
        **{name: row[name] for name in names},
        "detail": row["detail"][:_MAX_CHARS],
        "what": what,
    }


def _what(action: str, content: Mapping[str, Any]) -> str:
    """In a few words."""
    if action == "pose":
        text = " · ".join(text for _, text in content["blocks"])
        return f"{content['kind']}: {text}"[:_MAX_CHARS]
    if action == "veto":
        kind = "all problems like" if content["structure"] else "the problem"
        return f"{kind} {content['problem'][:8]}"
    if action == "rate":
        better, worse = (
            f"{side['problem'][:8]} of {side['teacher']}"
            for side in (content["better"], content["worse"])
        )
        return f"{better} is better than {worse}"
    return f"{content['problem'][:8]} in {content['seconds']:g} s: {content['text']}"[:_MAX_CHARS]


def _rank_teachers(view: RunView, comparisons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By what people prefer, with what their proposals have earned."""
    sides = [(one["better"], one["worse"]) for one in comparisons]
    strengths = fit_bradley_terry(
        [tuple((side["teacher"], side["structure"]) for side in pair) for pair in sides]  # type: ignore[misc]
    )
    won = Counter(better["teacher"] for better, _ in sides)
    lost = Counter(worse["teacher"] for _, worse in sides)
    query = "SELECT teacher, avg(reward) FROM proposals WHERE world = :world GROUP BY teacher"
    rewards = dict(tuple(row) for row in view.rows(query))
    teachers = sorted(won.keys() | lost.keys(), key=lambda name: (-strengths[name], name))
    return [
        {
            "teacher": name,
            "strength": round_digits(strengths[name], 3),
            "won": won[name],
            "lost": lost[name],
            "reward": round_digits(rewards.get(name), 3),
        }
        for name in teachers
    ]


def _asks(kind: TaskKind) -> str:
    """How a proposal is written, in the words for teachers; some kinds have none without an
    archive."""
    with contextlib.suppress(ConfigError):
        return kind.ask_proposal(()).instruction
    return ""


def _kinds(view: RunView) -> list[dict[str, Any]]:
    """What can be posed: the blocks to fill in for each kind. A kind of one's own may not be
    importable here."""
    kinds = []
    for name in view.setting("tasks.kinds", ()):
        try:
            kind = stored_kind(name)
        except ConfigError:
            continue
        kinds.append(
            {
                "name": name,
                "summary": kind.summary,
                "asks": _asks(kind),
                "blocks": list(kind.proposal_blocks),
                "references": list(kind.reference_kinds) if kind.derived else [],
            }
        )
    return kinds
