"""Proposals for the problem browser: an even sample of the run, each with its problem and attempts.

A page cannot hold a million attempts. The sample is limited by characters, and the page says how
many proposals there are in total.
"""

import json
from typing import Any

from redqueen.report.run_view import RunView, round_digits

MAX_CHARS = 9_000_000
"""Of all texts on a page together."""
MAX_PROPOSALS = 4000
MAX_TEXT_CHARS = 3000
"""Longer texts are cut; the ledger has them in full."""
_PROBES = 200
_PROPOSAL = """SELECT p.step, p.proposal, p.teacher, m.student, p.kind, p.text, p.tokens, p.problem,
        p.rejection, p.detail, p.solve_rate, p.reward, p.advantage
    FROM proposals p
    LEFT JOIN pairings m ON m.world = p.world AND m.step = p.step AND m.pairing = p.pairing
    WHERE p.world = :world AND p.step = :step AND p.proposal = :number"""
_PROBLEM = """SELECT payload, gold, features, cell
    FROM problems WHERE world = :world AND problem = :problem"""
_ATTEMPTS = """SELECT text, tokens, verdict, detail, reward, advantage FROM attempts
    WHERE world = :world AND step = :step AND proposal = :number ORDER BY attempt"""


def sample_proposals(view: RunView, max_chars: int = MAX_CHARS) -> dict[str, Any]:
    keys = view.rows(
        "SELECT step, proposal FROM proposals WHERE world = :world ORDER BY step, proposal"
    )
    if not keys:
        return {"total": 0, "items": []}
    probes = [read_proposal(view, *keys[number]) for number in _spread(len(keys), _PROBES)]
    mean_chars = max(1, sum(len(json.dumps(probe)) for probe in probes) // len(probes))
    count = max(1, min(MAX_PROPOSALS, max_chars // mean_chars))
    items = [read_proposal(view, *keys[number]) for number in _spread(len(keys), count)]
    return {"total": len(keys), "items": items}


def _spread(total: int, count: int) -> list[int]:
    """`count` numbers below `total`, evenly spaced."""
    if count >= total:
        return list(range(total))
    return [number * total // count for number in range(count)]


def read_proposal(view: RunView, step: int, number: int) -> dict[str, Any]:
    """One proposal with its problem and its attempts, or with the reason of its rejection."""
    proposal = dict(view.row(_PROPOSAL, step=step, number=number))
    proposal |= {"text": _cut(proposal["text"]), "detail": _cut(proposal["detail"])}
    for name in ("solve_rate", "reward", "advantage"):
        proposal[name] = round_digits(proposal[name], 4)
    if proposal["problem"] is None:
        return proposal
    for row in view.rows(_PROBLEM, problem=proposal["problem"]):
        payload = json.loads(row["payload"])
        proposal |= {
            "payload": {name: _cut_texts(value) for name, value in payload.items()},
            "gold": _cut_texts(json.loads(row["gold"])),
            "features": json.loads(row["features"]),
            "cell": row["cell"],
            "text": "",  # the payload has everything that was in it
        }
    proposal["attempts"] = [
        [
            _cut(row["text"]),
            row["verdict"],
            _cut(row["detail"]),
            round_digits(row["reward"], 4),
            round_digits(row["advantage"], 4),
            row["tokens"],
        ]
        for row in view.rows(_ATTEMPTS, step=step, number=number)
    ]
    return proposal


def _cut_texts(value: Any) -> Any:
    """Cut a text, or each text of a list."""
    if isinstance(value, list):
        return [_cut_texts(item) for item in value]
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARS:
        return text
    rest = len(text) - MAX_TEXT_CHARS
    return f"{text[:MAX_TEXT_CHARS]}\n... ({rest:,} more characters are in the ledger)"
