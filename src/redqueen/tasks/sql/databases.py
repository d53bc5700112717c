"""What the two SQL kinds share: tables with rows and a query as the payload, verified by running it
in the sandbox, its rows as gold.

`runner.py` is the program of the job; what a model wrote is its input and is never Python. Tables
are stored in normal spelling, as plain values: nothing of a teacher's runs when answers are graded.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from redqueen.records import Problem, content_key
from redqueen.sandbox import Job, Outcome
from redqueen.sandbox.literals import NotLiteral, canonical, parse_literal
from redqueen.tasks.kind import Block, Kind, Malformed, Reject, RunRules, Verified, take

MAX_QUERY = 1500
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])|(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))"""
    r"""|(?P<number>\d[\w.]*)|(?P<word>\w+)|(?P<sign><=|>=|<>|!=|\|\||\S)""",
    re.DOTALL,
)
_KEYWORDS = frozenset(
    "all and as asc between by case cross current desc distinct else end except exists filter "
    "following from full group having in inner intersect is join left like limit natural not null "
    "offset on or order outer over partition preceding range recursive right row rows select then "
    "unbounded union using values when where window with abs avg coalesce count dense_rank ifnull "
    "iif lag lead length lower max min ntile nullif rank replace round row_number substr sum total "
    "trim upper".split()
)
_FORMS = {
    "group": "group",
    "having": "having",
    "over": "window",
    "with": "with",
    "union": "set",
    "except": "set",
    "intersect": "set",
    "case": "case",
    "exists": "exists",
    "distinct": "distinct",
    "left": "outer",
    "order": "order",
}
"""Words of a query, and the cell of the coverage map that they lead to."""

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Database:
    """The payload of an SQL problem."""

    tables: str
    """CREATE TABLE and INSERT statements."""
    query: str
    question: str = ""
    """What the query answers, in words."""


@dataclass(frozen=True, slots=True)
class Result:
    rows: Rows
    ordered: bool
    """Whether the order of rows counts."""

    def is_answered_by(self, rows: Rows) -> bool:
        return rows == self.rows if self.ordered else sort_rows(rows) == sort_rows(self.rows)


@cache
def _program() -> str:
    return Path(__file__).with_name("runner.py").read_text(encoding="utf-8")


def query_job(tables: str, query: str, rules: RunRules, hidden: bool) -> Job:
    """Of one shape for verification and for grading. The program is ours and always does the same,
    so it runs once and is not inspected."""
    arguments = f"{canonical(tables)}, {canonical(query)}, {hidden}"
    return Job(_program(), (arguments,), limits=rules.limits)


def read_outcome(outcome: Outcome | None) -> dict[str, Any]:
    """What the runner returned. Raises Reject with its reason, or the sandbox's."""
    assert outcome is not None
    if outcome.kind != "value":
        raise Reject(outcome.kind, outcome.detail)
    fields: Any = parse_literal(outcome.values[0])
    found: dict[str, Any] = fields  # the program is ours
    if "refused" in found:
        raise Reject(found["refused"], found["detail"])
    return found


def read_result(text: str) -> Result:
    """As gold has it."""
    fields = json.loads(text)
    return Result([tuple(row) for row in fields["rows"]], fields["ordered"])


def write_rows(rows: Sequence[Sequence[Any]]) -> str:
    """A JSON array, a line for each row."""
    lines = ",\n ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[{lines}]"


def sort_rows(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def read_sql(blocks: Sequence[Block], label: str) -> str:
    text = take(blocks, label).strip()
    try:
        canonical(text)
    except NotLiteral as error:
        raise Malformed(f"{label}: {error}") from error
    if not text or "\0" in text:
        raise Malformed(f"no {label}")
    return text


class SqlKind(Kind):
    """A database and a query: verification, features and coverage."""

    payload = Database
    system = "You are a careful SQL programmer."
    reference_count = 3
    hidden = False
    """Whether the query must also run on hidden rows."""

    def verification(self, payload: Database, rules: RunRules) -> Job | None:
        for what, text, most in (
            ("tables", payload.tables, rules.max_program_chars),
            ("query", payload.query, min(MAX_QUERY, rules.max_program_chars)),
            ("question", payload.question, rules.max_message_chars),
        ):
            if len(text) > most:
                raise Reject("too_long", f"{what} of {len(text)} characters, at most {most}")
        return query_job(payload.tables, payload.query, rules, self.hidden)

    def verified(self, payload: Database, outcome: Outcome | None, rules: RunRules) -> Verified:
        found = read_outcome(outcome)
        shown, *hidden = found["results"]
        gold = tuple(
            json.dumps({"rows": one["rows"], "ordered": one["ordered"]}, ensure_ascii=False)
            for one in found["results"]
        )
        if not shown["rows"] or not shown["read"]:
            raise Reject("trivial", "no rows, or none of a table")
        if max(map(len, gold)) > rules.max_output_chars:
            raise Reject("too_long", f"a result of more than {rules.max_output_chars} characters")
        if hidden and not any(other["rows"] and other["rows"] != shown["rows"] for other in hidden):
            # no rows at all are easy to give: a query that knows the shown result would pass
            raise Reject("trivial", "its rows hardly depend on those of the tables")
        stored = replace(payload, tables=found["tables"])
        words = [word for _, word in tokens(payload.query)]
        features = {
            "tables": stored.tables.count("CREATE TABLE"),
            "rows": stored.tables.count("\n  ("),
            "words": len(words),
            "joins": len(shown["read"]) - 1 + words.count("join"),
            "subqueries": words.count("select") - 1,
            "result_rows": len(shown["rows"]),
            "steps_executed": found["steps"],
        }
        return Verified(stored, gold, features, (stored.tables, *words))

    def show(self, problem: Problem) -> tuple[Block, ...]:
        database: Database = problem.payload
        return (
            ("tables", database.tables),
            *((("question", database.question),) if database.question else ()),
            ("query", database.query),
            ("result", write_rows(read_result(problem.gold[0]).rows)),
        )

    def structure(self, problem: Problem) -> str:
        """The query without its names and values."""
        names: dict[str, str] = {}
        shape = [
            word
            if kind == "sign" or word in _KEYWORDS
            else kind
            if kind in ("text", "number")
            else names.setdefault(word, f"n{len(names)}")
            for kind, word in tokens(problem.payload.query)
        ]
        return content_key(*shape)[:16]

    def cell(self, problem: Problem) -> str:
        features = problem.features
        words = {word for _, word in tokens(problem.payload.query)}
        forms = (
            "+".join(sorted({form for word, form in _FORMS.items() if word in words})) or "plain"
        )
        joins, subqueries = (min(int(features[name]), 4) for name in ("joins", "subqueries"))
        return f"{problem.kind}/j{joins}/s{subqueries}/{forms}"

    def behaviour(self, problem: Problem, outcome: Outcome | None) -> str:
        return content_key(problem.payload.tables, *problem.gold)[:16]

    def load_payload(self, fields: Mapping[str, Any]) -> Database:
        texts = [fields.get(name, "") for name in ("tables", "query", "question")]
        if not all(isinstance(text, str) for text in texts) or not (texts[0] and texts[1]):
            raise ValueError("expected the texts 'tables' and 'query', and perhaps 'question'")
        return Database(*texts)


def tokens(query: str) -> list[tuple[str, str]]:
    """Kinds and texts of its tokens, without comments, words in lower case. Nothing is parsed."""
    found = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(query)]
    return [
        (kind, text.lower() if kind == "word" else text)
        for kind, text in found
        if kind != "comment" and text != ";"
    ]
