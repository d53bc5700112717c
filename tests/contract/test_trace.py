"""Reasoning is compared with execution: in Pawn's form exactly, in free text claim by claim."""

from collections.abc import Iterator
from random import Random

import pytest

from redqueen.pawn.documents import make_problem
from redqueen.pawn.programs import sample_program
from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome, Result
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks import load_kind
from redqueen.tasks.code.trace import claims
from redqueen.tasks.explain import Explains
from redqueen.tasks.prompts import reasoning_of
from tests.problems import code_problem

DEDUCTION = load_kind("code_o")
WORDS = (
    "def f(words):\n    total = 0\n    for word in words:\n        total += len(word)\n"
    "        if word == 'stop':\n            break\n    return str(total)\n"
)


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool() as box:
        yield box


def traced(problem: Problem, pool: SandboxPool) -> Outcome:
    job = DEDUCTION.trace(problem)
    assert job is not None
    return pool.run([job])[0]


def test_the_reasoning_that_pawn_learned_agrees_and_a_changed_line_is_found(
    pool: SandboxPool,
) -> None:
    rng = Random(5)
    programs = [sample_program(rng, 1 + number % 10) for number in range(60)]
    cases = [(make_problem("code_o", one, 0), one.traces[0]) for one in programs]
    jobs = [DEDUCTION.trace(problem) for problem, _ in cases]
    outcomes = pool.run([job for job in jobs if job is not None])
    changed = found = 0
    for (problem, lines), outcome in zip(cases, outcomes, strict=True):
        assert DEDUCTION.first_wrong_line(problem, "\n".join(lines), outcome) is None
        if lines:
            place = rng.randrange(len(lines))
            wrong = [*lines]
            wrong[place] = f"{lines[place].partition(' = ')[0]} = 'never {place}'"
            changed += 1
            found += DEDUCTION.first_wrong_line(problem, "\n".join(wrong), outcome) == place + 1
    assert found == changed > 40


@pytest.mark.parametrize(
    ("reasoning", "wrong"),
    [
        ("total is 0.\nword is 'ab': total is 0 + 2 = 2.\nword is 'stop': total is 2 + 4 = 6.", None),
        ("total is 0.\nword is 'ab': total is 0 + 2 = 3.\nSo f returns '7'.", 2),
        ("First, total = 0.\nAfter the loop total is 6.", None),
        ("First, total = 0.\nAfter the loop total is 7.", 2),
        ("If total is 9 the loop ends.\nIs total = 4?\ntotal: 2\ntotal becomes 6", None),
        ("total = 2\ntotal = 0", 1),
        ("total is 2\nthen total is 0", 2),
        ("words = ['ab', 'stop', 'c']\ntotal = 0\nword = 'ab'\ntotal = 2", None),
        ("total == 5 never holds, total >= 3 does\nbut total is len(words)", None),
        ("", None),
        ("`total` = `6`", None),
        ("`total` = `5`", 1),
    ],
)  # fmt: skip
def test_claims_of_free_text_are_held_against_the_run(
    reasoning: str, wrong: int | None, pool: SandboxPool
) -> None:
    problem = code_problem(WORDS, ["['ab', 'stop', 'c']"], ["'6'"])
    assert DEDUCTION.first_wrong_line(problem, reasoning, traced(problem, pool)) == wrong


def test_an_argument_that_is_set_again_may_be_named_or_not(pool: SandboxPool) -> None:
    problem = code_problem("def f(x, y):\n    x = x + y\n    return x\n", ["1, 2"], ["3"])
    outcome = traced(problem, pool)
    for reasoning in ("x = 3", "x = 1\nx = 3", "y = 2\nx = 3"):
        assert DEDUCTION.first_wrong_line(problem, reasoning, outcome) is None, reasoning
    assert DEDUCTION.first_wrong_line(problem, "x = 1\nx = 4", outcome) == 2


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    __note__(1, 'y', 9)\n    return x\n",
        "def f(x):\n    while True:\n        x += 1\n",
        "def f(x):\n    for i in range(10 ** 6):\n        x = [x]\n    return 0\n",
        "def f(x):\n    raise SystemExit\n",
        "class Odd:\n    def __repr__(self):\n        return '(1, 2'\ndef f(x):\n    y = Odd()\n    return 2\n",
    ],
)
def test_a_hostile_program_gives_no_trace_or_a_bounded_one(program: str, pool: SandboxPool) -> None:
    problem = code_problem(program, ["1"], ["2"])
    outcome = traced(problem, pool)
    assert DEDUCTION.first_wrong_line(problem, "x = 1\ny = 5", outcome) is None
    forged = Outcome("value", (Result("value", "('2', [(1, 2, 3)], True)"),))
    assert DEDUCTION.first_wrong_line(problem, "x = 7", forged) is None


def test_hostile_reasoning_is_read_in_bounded_time() -> None:
    problem = code_problem(WORDS, ["['ab']"], ["'2'"])
    steps = "[(0, 'words', \"['ab']\"), (2, 'total', '0')]"
    outcome = Outcome("value", (Result("value", f"(\"'2'\", {steps}, True)"),))
    for text in ("total is " * 20_000, "total = [" * 20_000, "total is 1 = " * 9999, "\x00" * 99):
        DEDUCTION.first_wrong_line(problem, text, outcome)
    assert list(claims("total is 0 + 2 = 2, and word is 'a'", {"total", "word"})) == [
        ("total", "2"),
        ("word", "'a'"),
    ]


def test_other_kinds_have_no_trace() -> None:
    problem = code_problem(WORDS, ["['ab']"], ["'2'"], "code_i")
    kind = load_kind("code_i")
    assert kind.trace(problem) is None
    assert kind.first_wrong_line(problem, "total = 9", None) is None
    assert isinstance(DEDUCTION.trace(problem), Job)


def test_an_altered_step_leads_to_another_answer_and_its_reasoning_departs_there(
    pool: SandboxPool,
) -> None:
    assert isinstance(DEDUCTION, Explains) and not isinstance(load_kind("logic"), Explains)
    program = "def f(x):\n    y = x * 2\n    z = y + 1\n    return z\n"
    problem = code_problem(program, ["3"], ["7"])
    outcome = traced(problem, pool)
    altered = DEDUCTION.alter(problem, outcome, Random(0))
    assert altered is not None
    assert altered.true in ("y = 6", "y = 6\nz = 7")
    assert altered.changed in ("y = 7", "y = 6\nz = 8")
    assert DEDUCTION.altered_answer(pool.run([altered.job])[0]) == "8"
    last = altered.changed.count("\n")
    assert DEDUCTION.first_wrong_line(problem, altered.changed, outcome) == last + 1
    assert DEDUCTION.first_wrong_line(problem, altered.true, outcome) is None


def test_changing_history_keeps_variables_of_outer_functions(pool: SandboxPool) -> None:
    program = (
        "def f(x):\n    seen = []\n    def g(y):\n        seen.append(y)\n        return y\n"
        "    a, b = g(x), g(x + 1)\n    seen[0] = 9\n    return seen, a + b\n"
    )
    problem = code_problem(program, ["1"], ["([9, 2], 3)"])
    assert DEDUCTION.first_wrong_line(problem, "a = 1\nb = 3", traced(problem, pool)) == 2


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [
        (">>think\nx = 1\ny = 2\n>>output\n3\n>>end", "x = 1\ny = 2"),
        (">>output\n3\n>>end", ""),
        (">>think\n>>output\n3", ""),
        ("<think>\nx is 1\n</think>\n<answer>1</answer>", "x is 1"),
        ("no tags", ""),
    ],
)
def test_reasoning_is_found_in_either_format(text: str, reasoning: str) -> None:
    assert reasoning_of(text) == reasoning
