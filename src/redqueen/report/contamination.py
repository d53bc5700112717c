"""Invented problems against the items of benchmarks: whether a run has trained on what it is
measured by.

Two signs. The same program: the canonical form of a problem's program is that of an item's, but
for the name of the function. Common text: a run of 13 words and signs in a row that both have, the
length that is usual for such checks. What models wrote is compared as text only: nothing of it is
parsed or run. A teacher has no access to benchmarks, but its base may have seen them.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redqueen.benchmarks.suite import Item
from redqueen.evaluate.runner import load_task
from redqueen.records import content_key
from redqueen.report.run_view import Run, open_views
from redqueen.sandbox.inspection.canonical import canonical_program

WORDS = 13
_WORD = re.compile(r"\w+|[^\w\s]")
_TEXTS = ("program", "message", "tables", "query", "question", "puzzle")
"""Fields of payloads that are compared; of others all texts."""


@dataclass(frozen=True, slots=True)
class Invented:
    """A problem of a run, as its ledger has it."""

    key: str
    structure: str
    text: str


@dataclass(frozen=True, slots=True)
class Match:
    problem: str
    item: str
    same_program: bool
    shared: float
    """Share of the problem's 13-word runs that the item has, too."""


@dataclass(frozen=True, slots=True)
class Contamination:
    """Of one suite."""

    suite: str
    items: int
    problems: int
    """Of these: those long enough to be compared by text, and all by program."""
    matches: tuple[Match, ...]
    """Of every problem with any: the item that it has most of, the worst first."""

    @property
    def same_program(self) -> int:
        return sum(match.same_program for match in self.matches)

    @property
    def common_text(self) -> int:
        return sum(match.shared > 0 for match in self.matches)

    def to_json(self) -> dict[str, Any]:
        return {
            "items": self.items,
            "problems": self.problems,
            "same_program": self.same_program,
            "common_text": self.common_text,
            "matches": [
                {
                    "problem": match.problem,
                    "item": match.item,
                    "same_program": match.same_program,
                    "shared": round(match.shared, 4),
                }
                for match in self.matches
            ],
        }


def find_contamination(
    run: Run, suites: Sequence[str], data: Path | None = None
) -> list[Contamination]:
    """Of all problems that a run has accepted, in all of its worlds."""
    problems = invented_problems(run)
    return [compare_problems(name, problems, load_task(name, data).items) for name in suites]


def invented_problems(run: Run) -> list[Invented]:
    query = """SELECT problem, structure, payload FROM problems
        WHERE world = :world AND author IS NOT NULL ORDER BY step, problem"""
    found: dict[str, Invented] = {}
    with open_views([run]) as views:
        for view in views:
            for row in view.rows(query):
                text = "\n".join(_payload_texts(json.loads(row["payload"])))
                found.setdefault(row["problem"], Invented(row["problem"], row["structure"], text))
    return list(found.values())


def compare_problems(
    suite: str, problems: Sequence[Invented], items: Sequence[Item]
) -> Contamination:
    by_program: dict[str, str] = {}
    by_words: dict[int, set[int]] = {}
    for number, item in enumerate(items):
        for form in item_forms(item.fields):
            by_program.setdefault(form, item.id)
        for run in set(word_runs("\n".join(_texts(item.fields)))):
            by_words.setdefault(run, set()).add(number)
    matches = []
    for problem in problems:
        runs = word_runs(problem.text)
        counts: dict[int, int] = {}
        for run in runs:
            for number in by_words.get(run, ()):
                counts[number] = counts.get(number, 0) + 1
        most = max(counts, key=lambda number: (counts[number], -number), default=None)
        same = by_program.get(problem.structure)
        if same is not None or most is not None:
            name = same if same is not None else items[most or 0].id
            shared = counts[most] / len(runs) if most is not None else 0.0
            matches.append(Match(problem.key, name, same is not None, shared))
    matches.sort(key=lambda match: (not match.same_program, -match.shared, match.problem))
    return Contamination(suite, len(items), len(problems), tuple(matches))


def word_runs(text: str) -> list[int]:
    """Hashes of all runs of 13 words and signs."""
    words = _WORD.findall(text)
    return [hash(tuple(words[at : at + WORDS])) for at in range(len(words) - WORDS + 1)]


def item_forms(fields: Mapping[str, Any]) -> Iterator[str]:
    """Of every program that an item shows or has as its solution: the hash of its canonical form,
    as the ledger has it of problems."""
    prompt, solution = fields.get("prompt"), fields.get("canonical_solution")
    texts = [text for text in fields.values() if isinstance(text, str)]
    if isinstance(prompt, str) and isinstance(solution, str):
        texts.append(prompt + solution)
    for text in texts:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        if len(functions) == 1:
            tree.body = [node for node in tree.body if not _is_typing(node)]  # annotations go, too
            yield content_key(canonical_program(_Rename(functions[0].name).visit(tree)))


def _is_typing(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "typing"


class _Rename(ast.NodeTransformer):
    """Problems call their function f."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = "f" if node.name == self.name else node.name
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = "f" if node.id == self.name else node.id
        return node


def _payload_texts(payload: Mapping[str, Any]) -> Iterable[str]:
    named = {name: payload[name] for name in _TEXTS if name in payload}
    return _texts(named or {name: part for name, part in payload.items() if name != "canonical"})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
