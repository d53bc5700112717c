"""LiveCodeBench, code generation: programs that read standard input, or methods of a class, judged
by the tests of the file.

Files with public tests only are graded by those, and every figure says so: that is easier than the
benchmark.
"""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from redqueen.benchmarks.data import Source
from redqueen.benchmarks.evalplus import failure
from redqueen.benchmarks.suite import RIGHT, SYSTEM, Item, Judges, Style, Verdict, Wrong
from redqueen.benchmarks.value_codec import ENTRY, arguments_text, arrived, same, with_entry
from redqueen.benchmarks.wrong import fenced_program, hostile_programs
from redqueen.errors import DataError
from redqueen.evaluate.replies import assemble, cut_at, program_in
from redqueen.sandbox import Job, Limits, Outcome
from redqueen.sandbox.literals import parse_literal
from redqueen.tasks.prompts import Prompt

LIMITS = Limits(cpu_s=6, memory_mb=1024, output_kb=4096)
_PRELUDE = """
import bisect, collections, copy, datetime, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
"""
_ASK = {
    "functional": (
        "Solve this problem in Python.\n\n{}\n\nStart from this code, and reply with the whole class in one ```python block.\n\n```python\n{}\n```"
    ),
    "stdin": (
        "Solve this problem in Python.\n\n{}\n\nThe program reads standard input and prints its answer. Reply with the whole program in one "
        "```python block."
    ),
}
_STOPS = ("\n```", "\n### ")


@dataclass(frozen=True, slots=True)
class _Test:
    given: str
    expected: str


class LiveCodeBench:
    name = "livecodebench"
    source = Source(
        "livecodebench_v1_public.jsonl",
        ("question_id", "question_content", "starter_code", "public_test_cases", "metadata"),
        url="https://huggingface.co/datasets/livecodebench/code_generation_lite/resolve/main/test.jsonl",
    )
    prompt_version = "livecodebench-1"
    max_tokens = 2048
    note = "public tests only: passing them is easier than the benchmark, whose private tests this file does not hold"

    def items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(str(row["question_id"]), row) for row in rows]

    def prompt(self, item: Item, style: Style) -> Prompt:
        content, starter = (
            item.fields["question_content"].strip(),
            item.fields["starter_code"].rstrip(),
        )
        kind = "functional" if starter else "stdin"
        if style == "chat":
            return Prompt(_ASK[kind].format(content, starter), SYSTEM)
        return Prompt(
            f"### Problem\n{content}\n\n### Solution in Python\n```python\n{starter}", None, _STOPS
        )

    def program(self, item: Item, reply: str, style: Style) -> str:
        starter = item.fields["starter_code"].rstrip()
        if style == "base":
            return assemble(_PRELUDE, starter + cut_at(reply, _STOPS))
        return assemble(_PRELUDE, program_in(reply, "class Solution" if starter else ""))

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: Style, judges: Judges
    ) -> list[Verdict]:
        tests = [_tests(item) for item in items]
        jobs = [
            _job(item, self.program(item, reply, style), cases)
            for item, reply, cases in zip(items, replies, tests, strict=True)
        ]
        outcomes = judges.sandbox.run(jobs)
        return [
            _verdict(item, cases, outcome)
            for item, cases, outcome in zip(items, tests, outcomes, strict=True)
        ]

    def ballot(self, item: Item, reply: str, style: Style) -> str | None:
        return None  # programs are equal by what they do, which is not compared here

    def gold(self, item: Item) -> str | None:
        return None

    def wrong(self, items: Sequence[Item], place: int) -> list[Wrong]:
        """The file holds no solutions: programs that say nothing, or something that no test
        expects."""
        starter = items[place].fields["starter_code"]
        method = _function(items[place]) if starter else "main"
        name, hostile = list(hostile_programs(method).items())[place % 9]
        answer = "no such answer"
        if starter:
            body = "class Solution:\n" + "".join(
                f"    {line}\n" for line in hostile.replace("(*a", "(self, *a").splitlines()
            )
            said = f"class Solution:\n    def {method}(self, *a):\n        return {answer!r}\n"
            return [
                Wrong("empty", ""),
                Wrong(name, fenced_program(body)),
                Wrong("a constant", fenced_program(said)),
            ]
        return [
            Wrong("empty", ""),
            Wrong(name, fenced_program(hostile)),
            Wrong("a constant", fenced_program(f"print({answer!r})")),
        ]


def _function(item: Item) -> str:
    return str(json.loads(item.fields["metadata"])["func_name"])


def _tests(item: Item) -> list[_Test]:
    cases = [*json.loads(item.fields["public_test_cases"]), *_private(item)]
    return [_Test(case["input"], case["output"]) for case in cases]


def _private(item: Item) -> list[dict[str, str]]:
    """The private tests, where the file has them: JSON, or JSON that was pickled, compressed and
    written in base 64."""
    text = item.fields.get("private_test_cases") or "[]"
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found = json.loads(_Texts(io.BytesIO(zlib.decompress(base64.b64decode(text)))).load())
        except (ValueError, TypeError, zlib.error, binascii.Error, pickle.UnpicklingError) as error:
            raise DataError(
                f"livecodebench: the private tests of {item.id} cannot be read: {error}"
            ) from error
    assert isinstance(found, list)
    return found


class _Texts(pickle.Unpickler):
    """A pickle of plain texts: nothing in it may name a class or a function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _job(item: Item, program: str, tests: Sequence[_Test]) -> Job:
    if not item.fields["starter_code"]:
        return Job(program, tuple(test.given for test in tests), mode="script", limits=LIMITS)
    inputs = tuple(
        arguments_text([json.loads(line) for line in test.given.split("\n") if line.strip()])
        for test in tests
    )
    return Job(
        with_entry(program, f"Solution().{_function(item)}"), inputs, entry=ENTRY, limits=LIMITS
    )


def _verdict(item: Item, tests: Sequence[_Test], outcome: Outcome) -> Verdict:
    if outcome.kind != "value":
        return Verdict(False, failure(outcome))
    for test, text in zip(tests, outcome.values, strict=True):
        if item.fields["starter_code"]:
            given = arrived(text)
            right = same(
                list(given) if isinstance(given, tuple) else given, json.loads(test.expected), 0.0
            )
        else:
            right = _same_output(str(parse_literal(text, 1 << 24)), test.expected)
        if not right:
            return Verdict(False, "wrong")
    return RIGHT


def _same_output(given: str, expected: str) -> bool:
    """Line by line, white space at the ends aside; numbers of a line by their value."""
    ours, theirs = given.strip().split("\n"), expected.strip().split("\n")
    return len(ours) == len(theirs) and all(map(_same_line, ours, theirs))


def _same_line(given: str, expected: str) -> bool:
    if given.strip() == expected.strip():
        return True
    try:
        return [Decimal(word) for word in given.split()] == [
            Decimal(word) for word in expected.split()
        ]
    except InvalidOperation:
        return False
