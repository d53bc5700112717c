"""LiveCodeBench, code generation: programs that read standard input, or methods of a class, graded
by the tests in the file.

Files with public tests only are graded by those, and every result says so: that is easier than the
benchmark.
"""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from redqueen.benchmarks.benchmark import Benchmark, WrongReply
from redqueen.benchmarks.comparison import ResultPairs, Rule, agree
from redqueen.benchmarks.data import Source
from redqueen.benchmarks.evalplus import to_verdict
from redqueen.benchmarks.extraction import extract_program, join_program, truncate_at
from redqueen.benchmarks.forgeries import TAGGED, constant_program
from redqueen.benchmarks.suite import SYSTEM, Graders, Item, PromptStyle, Verdict
from redqueen.benchmarks.value_codec import ENTRY, arguments_text, with_entry
from redqueen.benchmarks.wrong_replies import ATTACKS, attack_program, fence
from redqueen.errors import DataError
from redqueen.sandbox import Job, Limits
from redqueen.tasks.prompts import Prompt

LIMITS = Limits(cpu_s=6, memory_mb=1024, output_kb=4096)
_PRELUDE = """
import bisect, collections, copy, datetime, functools, heapq, itertools, math, operator, random, re
import string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
"""
_INSTRUCTIONS = {
    "functional": (
        "Solve this problem in Python.\n\n{}\n\nStart from this code, and reply with the whole "
        "class in one ```python block.\n\n```python\n{}\n```"
    ),
    "stdin": (
        "Solve this problem in Python.\n\n{}\n\nThe program reads standard input and prints its "
        "answer. Reply with the whole program in one ```python block."
    ),
}
_STOPS = ("\n```", "\n### ")


_MOST_BYTES = 1 << 30
"""Of an item's private tests, uncompressed."""
_UNREADABLE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError),
    *(zlib.error, binascii.Error, pickle.UnpicklingError),
)


class _Test(NamedTuple):
    input: str
    output: str


class LiveCodeBench(Benchmark):
    name = "livecodebench"
    summary = (
        "400 contest problems (release v1): programs or methods, graded by the tests in the file"
    )
    source = Source(
        "livecodebench_v1_public.jsonl",
        ("question_id", "question_content", "starter_code", "public_test_cases", "metadata"),
        url="https://huggingface.co/datasets/livecodebench/code_generation_lite/resolve/main/test.jsonl",
    )
    version = "livecodebench-1"
    max_tokens = 2048
    note = (
        "public tests only: passing them is easier than the benchmark, whose private tests this "
        "file does not hold"
    )

    def read_items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(str(row["question_id"]), row) for row in rows]

    def prompt(self, item: Item, style: PromptStyle) -> Prompt:
        content = item.fields["question_content"].strip()
        starter = item.fields["starter_code"].rstrip()
        if style.chat:
            instruction = _INSTRUCTIONS["functional" if starter else "stdin"]
            return Prompt(instruction.format(content, starter), SYSTEM)
        return Prompt(
            f"### Problem\n{content}\n\n### Solution in Python\n```python\n{starter}", None, _STOPS
        )

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        tests = [_tests(item) for item in items]
        jobs = [
            _job(item, _program(item, reply, style), cases)
            for item, reply, cases in zip(items, replies, tests, strict=True)
        ]
        returned: dict[int, ResultPairs] = {}
        outcomes = graders.sandbox.run(jobs)
        verdicts = [to_verdict(outcome) for outcome in outcomes]
        for number, (item, cases, outcome) in enumerate(zip(items, tests, outcomes, strict=True)):
            if outcome.kind == "value":
                pairs = [
                    (text, case.output) for text, case in zip(outcome.values, cases, strict=True)
                ]
                rule = Rule("json" if item.fields["starter_code"] else "output")
                returned[number] = ResultPairs(rule, pairs)
        for number, agreed in zip(
            returned, agree(list(returned.values()), graders.sandbox), strict=True
        ):
            if not agreed:
                verdicts[number] = replace(verdicts[number], correct=False, reason="wrong")
        return verdicts

    def gold_reply(self, item: Item) -> str | None:
        return None

    def wrong_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        """The file has no solutions: programs that answer nothing, or what no test expects."""
        name = ATTACKS[place % len(ATTACKS)]
        return [
            WrongReply("empty", ""),
            WrongReply(name, _fit(items[place], attack_program(name, _method(items[place])))),
            WrongReply("a constant", _constant(items[place], "'no such answer'")),
        ]

    def forged_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        """A constant, such as the output of a test, can be correct where all tests expect the
        same."""
        item = items[place]
        replies = [
            WrongReply(name, _fit(item, attack_program(name, _method(item)))) for name in ATTACKS
        ]
        replies += [WrongReply(name, _constant(item, text)) for name, text in TAGGED.items()]
        outputs = sorted({test.output.strip() for test in _tests(item)})
        if len(outputs) > 1:
            texts = [repr(json.loads(text) if _is_method(item) else text) for text in outputs]
            replies += [WrongReply("the output of a test", _constant(item, text)) for text in texts]
        return replies


def _is_method(item: Item) -> bool:
    return bool(item.fields["starter_code"])


def _constant(item: Item, text: str) -> str:
    return _fit(item, constant_program(_method(item), text))


def _fit(item: Item, program: str) -> str:
    """A program with a function of the method's name as a reply: a class that has it, or a script
    that prints what it returns."""
    if not _is_method(item):
        return fence(f"{program}\nprint({_method(item)}())")
    lines = program.replace("(*a", "(self, *a").splitlines()
    return fence("class Solution:\n" + "".join(f"    {line}\n" for line in lines))


def _program(item: Item, reply: str, style: PromptStyle) -> str:
    starter = item.fields["starter_code"].rstrip()
    if style.chat:
        return join_program(_PRELUDE, extract_program(reply, "class Solution" if starter else ""))
    return join_program(_PRELUDE, starter + truncate_at(reply, _STOPS))


def _method(item: Item) -> str:
    """The method that is called; of a script, any name."""
    return str(json.loads(item.fields["metadata"])["func_name"]) if _is_method(item) else "main"


def _tests(item: Item) -> list[_Test]:
    cases = [*json.loads(item.fields["public_test_cases"]), *_private_tests(item)]
    return [_Test(case["input"], case["output"]) for case in cases]


def _private_tests(item: Item) -> list[dict[str, str]]:
    """The private tests, where the file has them: JSON, plain or pickled, compressed and base64."""
    text = item.fields.get("private_test_cases") or "[]"
    try:
        tests = json.loads(text)
    except ValueError:
        try:
            opened = zlib.decompressobj()
            data = opened.decompress(base64.b64decode(text), _MOST_BYTES)
            if opened.unconsumed_tail:
                raise ValueError(f"they are larger than {_MOST_BYTES:,} bytes")
            tests = json.loads(_TextUnpickler(io.BytesIO(data)).load())
        except _UNREADABLE as error:
            raise DataError(
                f"livecodebench: the private tests of {item.id} cannot be read: {error}"
            ) from error
    assert isinstance(tests, list)
    return tests


class _TextUnpickler(pickle.Unpickler):
    """Refuses pickles that name a class or a function: unpickling those can run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _job(item: Item, program: str, tests: Sequence[_Test]) -> Job:
    if not item.fields["starter_code"]:
        return Job(program, tuple(test.input for test in tests), mode="script", limits=LIMITS)
    inputs = tuple(
        arguments_text([json.loads(line) for line in test.input.split("\n") if line.strip()])
        for test in tests
    )
    return Job(
        with_entry(program, f"Solution().{_method(item)}"), inputs, entry=ENTRY, limits=LIMITS
    )
