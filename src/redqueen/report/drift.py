"""Whether invented problems change their looks: answers, names, lengths, programs that come again,
and what resembles held-out items."""

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from redqueen.errors import RedQueenError
from redqueen.evaluate.suites import load_suite
from redqueen.records import Problem
from redqueen.report.run_view import RunView, round_digits
from redqueen.tasks import stored_kind
from redqueen.tasks.surface import Surface, summarize

MAX_PROBLEMS = 1500
"""Of each quarter that are looked at; of more, an even sample."""
EXAMPLES = 3
SIMILAR = 0.8
"""Share of five-token sequences that two near-duplicates have in common."""
_QUICK = ("heldout", "heldout-quick")
"""Suites that are read in no time; others are not compared with."""
_TOKEN = re.compile(r"\w+|\S")
_QUERY = """SELECT problem, kind, payload, gold, features, structure FROM problems
    WHERE world = :world AND step BETWEEN :first AND :last AND author IS NOT NULL
    ORDER BY step, problem"""


def drift(view: RunView) -> dict[str, Any]:
    """Means over the first and the last quarter by kind, the commonest answers with examples, how
    many problems share a program, and near-duplicates of held-out items."""
    size = max(1, view.last // 4)
    first = _read(view, 1, size)
    last = _read(view, view.last - size + 1, view.last) if view.last > size else first
    kinds = sorted({problem.kind for problem, _ in last})
    return {
        "rows": [row for kind in kinds for row in _compare(kind, first, last)],
        "answers": [one for kind in kinds if (one := _commonest(kind, last))],
        "flagged": {
            kind: {
                name: _keys(problem for problem, surface in _of(kind, last) if surface.get(name))
                for name in ("answer_trivial", "answer_shown", "answer_echo", "message_tells")
            }
            for kind in kinds
        },
        "reuse": [dict(row) for row in view.rows(_REUSE)],
        "heldout": _near_heldout(view, [problem for problem, _ in last]),
    }


_REUSE = """SELECT kind, count(*) AS problems, count(DISTINCT structure) AS structures
    FROM problems WHERE world = :world AND author IS NOT NULL GROUP BY kind ORDER BY kind"""

Described = list[tuple[Problem, Surface]]


def _read(view: RunView, first: int, last: int) -> Described:
    rows = view.rows(_QUERY, first=first, last=last)
    step = -(-len(rows) // MAX_PROBLEMS) or 1
    problems = (_load(row) for row in rows[::step])
    return [
        (problem, stored_kind(problem.kind).surface(problem)) for problem in problems if problem
    ]


def _load(row: sqlite3.Row) -> Problem | None:
    """None where the kind cannot be imported here, or no longer reads what it wrote."""
    try:
        payload = stored_kind(row["kind"]).load_payload(json.loads(row["payload"]))
    except (RedQueenError, ValueError):
        return None
    gold = tuple(map(str, json.loads(row["gold"])))
    return Problem(row["problem"], row["kind"], payload, gold, json.loads(row["features"]))


def _of(kind: str, described: Described) -> Described:
    return [pair for pair in described if pair[0].kind == kind]


def _compare(kind: str, first: Described, last: Described) -> list[dict[str, Any]]:
    before = summarize(surface for _, surface in _of(kind, first))
    own = _of(kind, last)
    return [
        {
            "kind": kind,
            "name": name,
            "first": round_digits(before.get(name), 4),
            "last": round_digits(value, 4),
            "problems": len(own),
        }
        for name, value in summarize(surface for _, surface in own).items()
    ]


def _commonest(kind: str, described: Described) -> dict[str, Any] | None:
    answers = defaultdict(list)
    for problem, surface in _of(kind, described):
        answers[str(surface.get("answer", ""))].append(problem)
    total = sum(map(len, answers.values()))
    if total < 2:
        return None
    answer, problems = max(answers.items(), key=lambda pair: len(pair[1]))
    return {
        "kind": kind,
        "answer": answer,
        "share": round_digits(len(problems) / total, 4),
        "problems": total,
        "examples": _keys(problems),
    }


def _keys(problems: Iterable[Problem]) -> list[str]:
    """The beginning of their keys, as `redqueen report --problem` takes them."""
    return [problem.key[:10] for problem in problems][:EXAMPLES]


def _near_heldout(view: RunView, problems: Sequence[Problem]) -> dict[str, Any] | None:
    """None where no suite can be compared with."""
    name = view.setting("evaluate.suite", "")
    if name not in _QUICK and not (name.endswith(".jsonl") and Path(name).is_file()):
        return None
    try:
        shingles, sizes = _index(name)
    except RedQueenError:
        return None
    near = [problem for problem in problems if _is_near(problem, shingles, sizes)]
    return {"suite": name, "problems": len(problems), "near": len(near), "examples": _keys(near)}


@lru_cache(4)
def _index(name: str) -> tuple[dict[tuple[str, ...], list[int]], list[int]]:
    """The problems of a suite, or those that its attempts are at, by their five-token sequences,
    and how many each has."""
    by_shingle: dict[tuple[str, ...], list[int]] = defaultdict(list)
    sizes = []
    for number, item in enumerate(load_suite(name).items(None, None)):
        found = _shingles(item.fields["problem"])
        sizes.append(len(found))
        for shingle in found:
            by_shingle[shingle].append(number)
    return by_shingle, sizes


def _shingles(problem: Problem) -> set[tuple[str, ...]]:
    text = "\n".join(text for _, text in stored_kind(problem.kind).show(problem))
    words = [problem.kind, *_TOKEN.findall(text)]
    return {tuple(words[place : place + 5]) for place in range(max(1, len(words) - 4))}


def _is_near(
    problem: Problem, by_shingle: dict[tuple[str, ...], list[int]], sizes: Sequence[int]
) -> bool:
    own = _shingles(problem)
    common: Counter[int] = Counter(item for one in own for item in by_shingle.get(one, ()))
    return any(
        count / (len(own) + sizes[item] - count) >= SIMILAR for item, count in common.items()
    )
