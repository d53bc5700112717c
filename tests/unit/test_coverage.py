"""Coverage tells structures apart by a coarse grid, and behaviours by what programs do to probe
inputs of their own types."""

import ast

import pytest

from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.coverage import PROBES, behaviour, cell, probe
from tests.problems import addition, code_problem


def behaviours(pool: SandboxPool, *programs: str | tuple[str, str]) -> list[str]:
    """Of programs, each with its first input; 3 where none is given."""
    pairs = [(program, "3") if isinstance(program, str) else program for program in programs]
    outcomes = pool.run([probe(program, first) for program, first in pairs])
    return [behaviour(first, outcome) for (_, first), outcome in zip(pairs, outcomes, strict=True)]


def test_a_cell_holds_what_is_about_as_complex_and_of_one_kind() -> None:
    def at(depth: int, cyclomatic: int, loc: int, variables: int, kind: str = "code_o") -> str:
        features = {"ast_depth": depth, "cyclomatic": cyclomatic, "loc": loc}
        return cell(kind, {**features, "variables": variables})

    assert at(8, 3, 6, 4) == at(9, 3, 8, 5)
    others = [(10, 3, 6, 4), (8, 4, 6, 4), (8, 3, 9, 4), (8, 3, 6, 6)]
    cells = {at(8, 3, 6, 4), at(8, 3, 6, 4, "code_i"), *(at(*other) for other in others)}
    assert len(cells) == 6
    assert at(8, 12, 6, 12) == at(8, 99, 6, 99)  # beyond, more of it is no new structure


def test_a_kind_gives_the_cell_probe_and_behaviour_of_its_problems(pool: SandboxPool) -> None:
    kind, problem = KINDS["code_o"], addition(2)
    assert (
        kind.cell(problem) == cell("code_o", problem.features) != cell("code_i", problem.features)
    )
    job = kind.probe(problem)
    assert job is not None and job == probe(problem.payload.program, "1")
    (outcome,) = pool.run([job])
    same = code_problem("def f(number):\n    number += 2\n    return number\n", ["7"], ["9"])
    assert kind.behaviour(problem, outcome) == behaviours(pool, (same.payload.program, "7"))[0]


@pytest.mark.parametrize(
    "given", ["3", "True", "1.5", "'abc'", "[1, 2]", "(1, 'a')", "['a']", "[[1], [2]]", "[]", "()", "{}", "{'a': [1]}", "{(1, 2): 'b'}", "1, 'a', [2.0]", "None", "x=3", ""]
)  # fmt: skip
def test_probes_are_literals_of_the_same_types(given: str) -> None:
    def types(text: str) -> list[type]:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        return [
            type(ast.literal_eval(value))
            for value in [*call.args, *(keyword.value for keyword in call.keywords)]
        ]

    job = probe("def f(*a): return 0\n", given)
    assert len(job.inputs) == PROBES
    assert [types(text) for text in job.inputs] == [types(given)] * PROBES
    if given in ("3", "1.5", "'abc'", "[1, 2]", "['a']", "{'a': [1]}"):
        assert len(set(job.inputs)) == PROBES


def test_an_input_that_is_no_literal_is_probed_without_a_crash() -> None:
    assert set(probe("def f(x): return x\n", "f(").inputs) == {"None"}


def test_programs_that_only_look_different_behave_alike(pool: SandboxPool) -> None:
    loop = "    total = 0\n    for _ in range(2):\n        total += number\n    return total\n"
    same, other, differs = behaviours(
        pool,
        "def f(x): return x + x\n",
        (f"def f(number):\n{loop}", "8"),
        "def f(x): return x * x\n",
    )
    assert same == other != differs


def test_types_and_errors_are_part_of_behaviour(pool: SandboxPool) -> None:
    hashes = behaviours(
        pool,
        "def f(x): return x\n",
        ("def f(x): return x\n", "'a'"),
        "def f(x): return 1 // x\n",
        "def f(x): raise KeyError(x)\n",
        "def f(x): raise ValueError(x)\n",
        "def f(x):\n    while x != 3: pass\n",
    )
    assert len(set(hashes)) == len(hashes)


def test_the_message_of_an_error_is_no_behaviour(pool: SandboxPool) -> None:
    first, second = behaviours(
        pool, "def f(x): raise KeyError('this')\n", "def f(x): raise KeyError('that')\n"
    )
    assert first == second


def test_behaviour_repeats_itself_where_a_program_follows_the_hash_of_texts(
    pool: SandboxPool,
) -> None:
    program = "def f(x): return list({'a', 'b', 'c', 'd', str(x)}), hash('x')\n"
    assert len({behaviours(pool, program)[0] for _ in range(4)}) == 1
