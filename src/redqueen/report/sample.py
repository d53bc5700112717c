"""Proposals for the problem browser: an even sample of the run, each with its problem and attempts.

A page cannot hold a million attempts. The sample is limited by characters, and the page says how
many proposals there are in total.
"""

import json
import sqlite3
from collections import Counter
from typing import Any

from redqueen.errors import ConfigError
from redqueen.records import Problem
from redqueen.report.run_view import RunView, round_digits
from redqueen.tasks import stored_kind

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
_PROBLEM = """SELECT problem, kind, payload, gold, features
    FROM problems WHERE world = :world AND problem = :problem"""
_ATTEMPTS = """SELECT text, tokens, verdict, detail, reward, advantage, student FROM attempts
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
    proposal |= {"text": cut(proposal["text"]), "detail": cut(proposal["detail"])}
    for name in ("solve_rate", "reward", "advantage"):
        proposal[name] = round_digits(proposal[name], 4)
    if proposal["problem"] is None:
        return proposal
    for row in view.rows(_PROBLEM, problem=proposal["problem"]):
        proposal |= {
            "blocks": [[label, cut(text)] for label, text in show_problem(row)],
            "features": json.loads(row["features"]),
            "text": "",  # the blocks have everything that was in it
        }
    proposal["attempts"] = [
        [
            cut(row["text"]),
            row["verdict"],
            cut(row["detail"]),
            round_digits(row["reward"], 4),
            round_digits(row["advantage"], 4),
            row["tokens"],
            row["student"],
        ]
        for row in view.rows(_ATTEMPTS, step=step, number=number)
    ]
    return proposal


def show_problem(row: sqlite3.Row) -> list[tuple[str, str]]:
    """A problem as labelled texts, as its kind shows it, or as it is stored if the kind cannot be
    imported here."""
    payload, gold = json.loads(row["payload"]), tuple(map(str, json.loads(row["gold"])))
    try:
        kind = stored_kind(row["kind"])
        problem = Problem(row["problem"], row["kind"], kind.load_payload(payload), gold, {})
        blocks = list(kind.show(problem))
    except (ConfigError, ValueError):
        blocks = [(name, str(value)) for name, value in payload.items()]
    if not set(gold) <= {text for _, text in blocks}:
        blocks.append(("gold", "\n".join(gold)))
    return _join_repeated(blocks)


def _join_repeated(blocks: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Labels that repeat, such as input and output, become one block with a line for each round."""
    counts = Counter(label for label, _ in blocks)
    labels = [label for label, count in counts.items() if count > 1]
    columns = [[text for label, text in blocks if label == own] for own in labels]
    if not labels or len(set(map(len, columns))) > 1:
        return blocks
    lines = ["  →  ".join(texts) for texts in zip(*columns, strict=True)]
    single = [block for block in blocks if counts[block[0]] == 1]
    return [*single, (" → ".join(labels), "\n".join(lines))]


def cut(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARS:
        return text
    rest = len(text) - MAX_TEXT_CHARS
    return f"{text[:MAX_TEXT_CHARS]}\n... ({rest:,} more characters are in the ledger)"
