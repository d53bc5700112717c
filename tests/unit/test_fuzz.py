"""Random texts against the parsers and the wire format: no crash, no wrong outcome. `make fuzz`
runs it for ten minutes."""

import ast
import os
import time
import warnings
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from redqueen.sandbox import wire
from redqueen.sandbox.literals import (
    NotLiteral,
    canonical,
    normal_arguments,
    parse_arguments,
    parse_literal,
)
from redqueen.sandbox.protocol import Job, Limits
from redqueen.tasks import KINDS
from redqueen.tasks.kind import Malformed
from redqueen.tasks.prompts import load_prompt_format

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("REDQUEEN_FUZZ_S", "0"))

_pieces = st.sampled_from(
    ["[", "]", "(", ")", "{", "}", ",", ":", "'", '"', "\\", "-", "+", "1", "2.5", "j", "0x", "e", "_", "b", "r", "f", "None", "True", "set", "set()", " ", "\n",
     "'''", '"""', "\\n", "\\x", "\\u12", "é", "\ud800", "\0", "#", "lambda", "x", "...", "1e9", "inf", "<think>", "</think>", "<answer>", "</answer>", "```", "```python",
     "```input", "```output", "\n```\n", ">>program", "\n>>input\n", ">>output\n", ">>message\n", ">>think\n", ">>end", "def f(x):", "return x"]
)  # fmt: skip
texts = st.lists(_pieces, max_size=30).map("".join) | st.text(max_size=60)
lines = st.lists(
    st.sampled_from(
        [
            b"V",
            b"E",
            b"M",
            b"U",
            b"I",
            b"R",
            b"S",
            b".",
            b"\n",
            b"1",
            b"[1, 2]",
            b"'a'",
            b"{}",
            b"-",
            b"\xff",
            b"9" * 5000,
        ]
    )
    | st.binary(max_size=20),
    max_size=30,
).map(b"".join)


def repeat(check: Callable[[], None], share: float = 0.2) -> None:
    """Once in the ordinary tests; again and again with new examples for its share of the time when
    fuzzing."""
    end = time.monotonic() + SECONDS * share
    check()
    while time.monotonic() < end:
        check()


def fuzz(strategy: st.SearchStrategy[object], check: Callable[[object], None]) -> None:
    examples = 20_000 if SECONDS else 300
    phases = (Phase.generate, Phase.shrink)
    wrapped = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )(given(strategy)(check))
    repeat(wrapped)


def test_the_literal_reader_agrees_with_python_or_refuses() -> None:
    def check(text: object) -> None:
        assert isinstance(text, str)
        try:
            ours = parse_literal(text)
        except NotLiteral:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = ast.literal_eval(f"({text}\n)")
        assert repr(ours) == repr(theirs)

    fuzz(texts, check)


def test_arguments_read_as_python_would_read_the_call() -> None:
    def check(text: object) -> None:
        assert isinstance(text, str)
        try:
            ours = parse_arguments(text)
        except NotLiteral:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call = ast.parse(f"f({text}\n)", mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        assert [repr(ast.literal_eval(argument)) for argument in call.args] == [
            repr(value) for value in ours
        ]
        again = normal_arguments(text)
        assert normal_arguments(again) == again

    fuzz(texts, check)


def test_a_child_may_write_anything_at_all() -> None:
    def check(body: object) -> None:
        assert isinstance(body, bytes)
        for checked in (True, False):
            read = wire.read_lines(body, 20, 1000, inspected=False, checked=checked)
            assert read.inspection is None
            assert read.rejection is None
            for result in read.results if checked else ():
                if result.kind == "value":
                    assert canonical(parse_literal(result.text)) == result.text
                else:
                    assert result.text.isascii()
                    assert result.text.isprintable()

    fuzz(lines, check)


def test_a_request_reads_back_as_it_was_written() -> None:
    def check(parts: object) -> None:
        assert isinstance(parts, list)
        program, *inputs = parts
        job = Job(
            program, tuple(inputs), tests=program[:5], allowed_modules=frozenset({"math", "re"})
        )
        try:
            serial, frame = wire.write_request(job, job.inputs, Limits(), count_steps=True)
        except UnicodeEncodeError:
            return
        head = wire.Head(*wire.REQUEST.unpack_from(frame))
        body = memoryview(frame[wire.REQUEST.size :])
        assert (head.serial, head.body) == (serial, len(body))
        order = wire.read_order(body)
        assert order.allowed_modules == ["math", "re"]
        at = order.start
        read = [bytes(body[(at := at + size) - size : at]).decode() for size in order.sizes]
        assert read == [program, program[:5], *inputs]

    fuzz(st.lists(texts, min_size=2, max_size=5), check)


def test_whatever_a_model_writes_is_read_or_malformed() -> None:
    formats = [load_prompt_format("chat"), load_prompt_format("compact")]

    def check(text: object) -> None:
        assert isinstance(text, str)
        for prompt_format in formats:
            for kind in KINDS.values():
                try:
                    kind.read_proposal(prompt_format.parse(text, kind.proposal_blocks), ())
                except Malformed as error:
                    assert str(error)
                try:
                    assert (
                        kind.read_answer(prompt_format.parse(text, kind.answer_blocks)) is not None
                    )
                except Malformed as error:
                    assert str(error)

    fuzz(texts, check)
