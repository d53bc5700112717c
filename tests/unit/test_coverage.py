"""Coverage tells structures apart by a coarse grid, and behaviours by what programs do to probe
inputs of their own types."""

import ast

import pytest

from redqueen.records import Problem
from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.code.coverage import PROBES, behaviour, cell, probe


def problem(
    program: str, given: str = "3", kind: str = "code_o", complexity: Complexity | None = None
) -> Problem:
    return Problem(
        kind,
        program,
        (given,),
        ("?",),
        program,
        complexity or Complexity(4, 1, 2, 1),
        1,
    )


def behaviours(pool: SandboxPool, *problems: Problem) -> list[str]:
    outcomes = pool.run([probe(one) for one in problems])
    return [behaviour(one, outcome) for one, outcome in zip(problems, outcomes, strict=True)]


def test_a_cell_holds_what_is_about_as_complex_and_of_one_kind() -> None:
    def at(depth: int, cyclomatic: int, loc: int, variables: int, kind: str = "code_o") -> str:
        return cell(
            problem(
                "",
                kind=kind,
                complexity=Complexity(depth, cyclomatic, loc, variables),
            )
        )

    assert at(8, 3, 6, 4) == at(9, 3, 8, 5)
    assert (
        len(
            {
                at(8, 3, 6, 4),
                at(10, 3, 6, 4),
                at(8, 4, 6, 4),
                at(8, 3, 9, 4),
                at(8, 3, 6, 6),
                at(8, 3, 6, 4, "code_i"),
            }
        )
        == 6
    )
    assert at(8, 12, 6, 12) == at(8, 99, 6, 99)  # beyond, more of it is no new structure


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

    job = probe(problem("def f(*a): return 0\n", given))
    assert len(job.inputs) == PROBES
    assert [types(text) for text in job.inputs] == [types(given)] * PROBES
    if given in ("3", "1.5", "'abc'", "[1, 2]", "['a']", "{'a': [1]}"):
        assert len(set(job.inputs)) == PROBES


def test_an_input_that_is_no_literal_is_probed_without_a_crash() -> None:
    assert set(probe(problem("def f(x): return x\n", "f(")).inputs) == {"None"}


def test_programs_that_only_look_different_behave_alike(pool: SandboxPool) -> None:
    same, other, differs = behaviours(
        pool,
        problem("def f(x): return x + x\n"),
        problem(
            "def f(number):\n    total = 0\n    for _ in range(2):\n        total += number\n    return total\n",
            "8",
        ),
        problem("def f(x): return x * x\n"),
    )
    assert same == other != differs


def test_types_and_errors_are_part_of_behaviour(pool: SandboxPool) -> None:
    found = behaviours(
        pool,
        problem("def f(x): return x\n"),
        problem("def f(x): return x\n", "'a'"),
        problem("def f(x): return 1 // x\n"),
        problem("def f(x): raise KeyError(x)\n"),
        problem("def f(x): raise ValueError(x)\n"),
        problem("def f(x):\n    while x != 3: pass\n"),
    )
    assert len(set(found)) == len(found)


def test_the_message_of_an_error_is_no_behaviour(pool: SandboxPool) -> None:
    one, other = behaviours(
        pool,
        problem("def f(x): raise KeyError('this')\n"),
        problem("def f(x): raise KeyError('that')\n"),
    )
    assert one == other


def test_behaviour_repeats_itself_where_a_program_follows_the_hash_of_texts(
    pool: SandboxPool,
) -> None:
    odd = problem("def f(x): return list({'a', 'b', 'c', 'd', str(x)}), hash('x')\n")
    assert len({behaviours(pool, odd)[0] for _ in range(4)}) == 1
