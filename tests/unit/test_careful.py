"""Careful traces: the working of a step before its result."""

from random import Random

import pytest

from redqueen.pawn.careful import MARK, careful_trace
from redqueen.pawn.documents import make_shard
from redqueen.pawn.programs import sample_program
from redqueen.rng import stream
from redqueen.tasks.code.trace import Trace, first_departure

PROGRAM = """def f(m, n):
    if (n // 4) % 4 == 0:
        m += n
    m = (m + n) % 4
    return [m, n]
"""


def test_a_step_is_worked_out_innermost_operations_first_and_a_condition_to_its_end() -> None:
    assert careful_trace(PROGRAM, "7, 16", lambda: True) == [
        ": 16 // 4 % 4 == 0",
        ": 4 % 4 == 0",
        ": 0 == 0",
        ": True",
        ": 7 + 16",
        "m = 23",
        ": (23 + 16) % 4",
        ": 39 % 4",
        "m = 3",
    ]


@pytest.mark.parametrize(
    ("line", "working"),
    [
        ("xs[1:] + xs[:1]", [": [3, 5, 8][1:] + [3, 5, 8][:1]", ": [5, 8] + [3]"]),
        (
            "[e * 2 for e in xs]",
            [": [e * 2 for e in [3, 5, 8]]", ": [3 * 2, 5 * 2, 8 * 2]"],
        ),
        ("[e for e in xs if e > 4]", [": [e for e in [3, 5, 8] if e > 4]"]),
        ("sum(xs) // len(xs)", [": sum([3, 5, 8]) // len([3, 5, 8])", ": 16 // 3"]),
    ],
)
def test_expressions_of_the_grammar_are_reduced(line: str, working: list[str]) -> None:
    program = f"def f(xs):\n    nums = {line}\n    return nums\n"
    lines = careful_trace(program, "[3, 5, 8]", lambda: True)
    assert lines[:-1] == working and lines[-1].startswith("nums = ")


@pytest.mark.parametrize("tier", range(1, 11))
def test_without_its_working_a_careful_trace_is_the_trace(tier: int) -> None:
    rng, coin = stream(0, "careful", tier), Random(0)
    for _ in range(12):
        program = sample_program(rng, tier)
        for arguments, trace in zip(program.inputs[:3], program.traces[:3], strict=True):
            lines = careful_trace(program.text, arguments, lambda: coin.random() < 0.5)
            assert [line for line in lines if not line.startswith(MARK)] == list(trace)


def test_nothing_is_worked_out_unless_it_is_asked_for() -> None:
    plain = make_shard(0, 0, frozenset(), 1.0)
    careful = make_shard(0, 0, frozenset(), 1.0, careful_share=0.3)
    assert not any(f"\n{MARK}" in document for document in plain)
    assert sum(f"\n{MARK}" in document for document in careful) > 300


def test_working_is_not_judged_when_reasoning_is_set_against_execution() -> None:
    steps = Trace((("m", "7"), ("m", "0")), given=1, complete=True)
    assert first_departure(": (7 + 81) % 4\n: 88 % 4\nm = 0", steps) is None
    assert first_departure(": (7 + 81) % 4\n: 88 % 4\nm = 2", steps) == 2
