"""Problems to look at one by one: some of the run's proposals, spread evenly over it, each with
what came of it.

A page cannot hold a million attempts. How many fit is a matter of characters, and the page says how
many there are in all.
"""

import json
from typing import Any

from redqueen.report.run_view import Side, rounded

MOST_CHARS = 9_000_000
"""Of all texts of one side together."""
MOST_PROPOSALS = 4000
LONGEST_TEXT = 3000
"""A longer text is cut; the ledger has all of it."""
_LOOKED_AT = 200


def problems(side: Side, most_chars: int = MOST_CHARS) -> dict[str, Any]:
    (total,) = side.row("SELECT count(*) FROM proposals WHERE world = :world")
    if not total:
        return {"total": 0, "items": []}
    keys = side.connection.execute(
        "SELECT step, proposal FROM proposals WHERE world = ? ORDER BY step, proposal",
        (side.world,),
    ).fetchall()
    probe = [proposal(side, *keys[number]) for number in _evenly(total, _LOOKED_AT)]
    each = max(1, sum(len(json.dumps(one)) for one in probe) // len(probe))
    wanted = max(1, min(MOST_PROPOSALS, most_chars // each))
    return {
        "total": total,
        "items": [proposal(side, *keys[number]) for number in _evenly(total, wanted)],
    }


def _evenly(total: int, wanted: int) -> list[int]:
    """So many numbers below `total`, spread evenly."""
    if wanted >= total:
        return list(range(total))
    return [number * total // wanted for number in range(wanted)]


def proposal(side: Side, step: int, number: int) -> dict[str, Any]:
    """One proposal with its problem and its attempts, or why it was rejected."""
    query = """SELECT p.step, p.proposal, p.teacher, m.student, p.kind, p.text, p.tokens, p.problem, p.rejection, p.detail,
            p.solve_rate, p.reward, p.advantage
        FROM proposals p LEFT JOIN pairings m ON m.world = p.world AND m.step = p.step AND m.pairing = p.pairing
        WHERE p.world = :world AND p.step = :step AND p.proposal = :number"""
    found = dict(side.row(query, step=step, number=number))
    found |= {"text": _cut(found["text"]), "detail": _cut(found["detail"])}
    found |= {name: rounded(found[name], 4) for name in ("solve_rate", "reward", "advantage")}
    if found["problem"] is None:
        return found
    query = """SELECT payload, gold, features, cell
        FROM problems WHERE world = :world AND problem = :problem"""
    posed = side.row(query, problem=found["problem"])
    if posed is not None:
        found |= {
            "payload": {
                name: _cut_texts(value) for name, value in json.loads(posed["payload"]).items()
            },
            "gold": _cut_texts(json.loads(posed["gold"])),
            "features": json.loads(posed["features"]),
            "cell": posed["cell"],
        }
        found["text"] = ""  # the payload has all that was in it
    query = """SELECT text, tokens, verdict, detail, reward, advantage FROM attempts
        WHERE world = :world AND step = :step AND proposal = :number ORDER BY attempt"""
    found["attempts"] = [
        [
            _cut(row["text"]),
            row["verdict"],
            _cut(row["detail"]),
            rounded(row["reward"], 4),
            rounded(row["advantage"], 4),
            row["tokens"],
        ]
        for row in side.rows(query, step=step, number=number)
    ]
    return found


def _cut_texts(value: Any) -> Any:
    """A text, or each text of a list, at a length that a page can hold."""
    if isinstance(value, list):
        return [_cut_texts(item) for item in value]
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    return (
        text
        if len(text) <= LONGEST_TEXT
        else f"{text[:LONGEST_TEXT]}\n... ({len(text) - LONGEST_TEXT:,} more characters are in the ledger)"
    )
