"""What Pawn's programs promise: a seed alone makes them, they end, depend on their inputs, and
get harder with the tier."""

import ast
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from statistics import mean

import pytest

from redqueen.config.stages import VerifyConfig
from redqueen.pawn.grammar import TIERS
from redqueen.pawn.programs import INPUTS, Program, program_key, sample_program
from redqueen.records import Problem, Proposal
from redqueen.rng import stream
from redqueen.sandbox import Job, Limits
from redqueen.sandbox.inspection.canonical import canonical_program
from redqueen.sandbox.literals import canonical
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import load_kinds
from redqueen.tasks.code import KINDS
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

pytestmark = pytest.mark.slow

EACH = 60
"""Programs of each tier that most tests look at."""
DEAD_SHARE = 0.12
"""Statements without which every output stays the same, at most. Over 200 programs a tier: none at
tier 1, 5 % at tier 5, 11 % at tier 10."""


@pytest.fixture(scope="module")
def programs() -> dict[int, list[Program]]:
    return {tier: sample(tier, EACH) for tier in TIERS}


def sample(tier: int, count: int) -> list[Program]:
    rng = stream(3, "tests", "programs", tier)
    return [sample_program(rng, tier) for _ in range(count)]


def all_of(programs: dict[int, list[Program]]) -> list[Program]:
    return [program for tier in programs.values() for program in tier]


def form(text: str) -> str:
    return canonical_program(ast.parse(text))


@pytest.mark.parametrize("tier", TIERS)
def test_the_same_seed_gives_the_same_programs(
    tier: int, programs: dict[int, list[Program]]
) -> None:
    assert sample(tier, 8) == programs[tier][:8]
    assert {program.tier for program in programs[tier]} == {tier}


def test_another_seed_gives_other_programs(programs: dict[int, list[Program]]) -> None:
    rng = stream(4, "tests", "programs", 5)
    assert {sample_program(rng, 5).key for _ in range(20)}.isdisjoint(
        program.key for program in programs[5]
    )


def test_a_program_run_again_gives_its_outputs(programs: dict[int, list[Program]]) -> None:
    for program in all_of(programs):
        namespace: dict[str, object] = {}
        exec(program.text, namespace)
        assert (
            tuple(canonical(eval(f"f({text})", namespace)) for text in program.inputs)
            == program.outputs
        ), program.text


def test_the_sandbox_ends_every_program_with_the_same_outputs_and_harder_tiers_take_more_steps(
    pool: SandboxPool, programs: dict[int, list[Program]]
) -> None:
    steps = {}
    for tier, samples in programs.items():
        outcomes = pool.run(
            [Job(program.text, program.inputs, count_steps=True) for program in samples]
        )
        for program, outcome in zip(samples, outcomes, strict=True):
            assert outcome.kind == "value", (outcome, program.text)
            assert outcome.values == program.outputs, program.text
        steps[tier] = mean(outcome.steps or 0 for outcome in outcomes)
    assert all(fewer < more for fewer, more in pairwise(steps.values())), steps


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_programs_of_every_tier_are_problems_to_the_verifier(
    pool: SandboxPool, kind: str, programs: dict[int, list[Program]]
) -> None:
    chosen = [program for tier in programs.values() for program in tier[:3]]
    references = _problems(pool, "code_o", chosen, [()] * len(chosen))
    problems = (
        references
        if kind == "code_o"
        else _problems(pool, kind, chosen, [(reference,) for reference in references])
    )
    for program, problem in zip(chosen, problems, strict=True):
        shown = INPUTS if kind == "code_f" else 1
        assert (problem.payload.inputs, problem.gold) == (
            program.inputs[:shown],
            program.outputs[:shown],
        )


def _problems(
    pool: SandboxPool, kind: str, programs: list[Program], references: list[tuple[Problem, ...]]
) -> list[Problem]:
    proposals = []
    for program, shown in zip(programs, references, strict=True):
        blocks = [("program", program.text), ("input", program.inputs[0])]
        if kind == "code_f":
            blocks = [("message", program.hint), *(("input", text) for text in program.inputs)]
        proposals.append(Proposal(kind, write_blocks(blocks), shown if kind == "code_f" else ()))
    verdicts = verify_proposals(proposals, load_kinds(), CompactFormat(), pool, VerifyConfig())
    problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
    assert len(problems) == len(verdicts), verdicts
    return problems


def test_an_output_is_that_of_at_most_half_the_inputs(programs: dict[int, list[Program]]) -> None:
    for program in all_of(programs):
        assert len(set(program.inputs)) == len(program.outputs) == len(program.traces) == INPUTS
        assert Counter(program.outputs).most_common(1)[0][1] <= INPUTS // 2, program.text


def test_few_statements_can_go_without_changing_an_output(
    pool: SandboxPool, programs: dict[int, list[Program]]
) -> None:
    shortened = [
        (program, text)
        for tier in (1, 3, 5, 7, 8, 10)
        for program in programs[tier][:25]
        for text in _each_statement_out(program.text)
    ]
    # in the sandbox: without the line that counts down, a while loop has no end
    outcomes = pool.run(
        [
            Job(text, program.inputs, limits=Limits(cpu_s=0.05, memory_mb=64))
            for program, text in shortened
        ]
    )
    same = [
        outcome.kind == "value" and outcome.values == program.outputs
        for outcome, (program, _) in zip(outcomes, shortened, strict=True)
    ]
    assert mean(same) < DEAD_SHARE


def _each_statement_out(text: str) -> Iterator[str]:
    tree = ast.parse(text)
    function = tree.body[0]
    bodies = [
        body
        for node in ast.walk(function)
        for name in ("body", "orelse")
        if isinstance(body := getattr(node, name, None), list)
    ]
    for body in bodies:
        for place, statement in enumerate(body):
            body[place] = ast.Pass()
            yield ast.unparse(tree)
            body[place] = statement


def test_a_while_loop_is_never_continued_early() -> None:
    loops = 0
    for tier in (8, 10):
        for program in sample(tier, 100):
            for node in ast.walk(ast.parse(program.text)):
                if isinstance(node, ast.While):
                    loops += 1
                    assert not any(isinstance(part, ast.Continue) for part in _own_parts(node)), (
                        program.text
                    )
    assert loops > 20


def _own_parts(loop: ast.While) -> Iterator[ast.AST]:
    """What is in this loop and in no loop inside it."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.For | ast.While):
            waiting += ast.iter_child_nodes(node)


def test_keys_are_equal_exactly_when_canonical_programs_are(
    programs: dict[int, list[Program]],
) -> None:
    chosen = [*all_of(programs), *sample(1, 400)[EACH:]]  # tier 1 repeats itself
    pairs = {(program.key, form(program.text)) for program in chosen}
    assert (
        len({key for key, _ in pairs})
        == len({canonical for _, canonical in pairs})
        == len(pairs)
        < len(chosen)
    )


def test_renamed_programs_have_one_key_and_changed_ones_another() -> None:
    text = "def f(xs):\n    total = 0\n    for x in xs:\n        total += x * 2\n    return total\n"
    renamed = text.replace("total", "best").replace("xs", "ys")
    assert text != renamed
    assert program_key(text) == program_key(renamed)
    assert form(text) == form(renamed)
    for changed in (
        text.replace("2", "3"),
        text.replace("total += x", "total -= x"),
        text.replace("in xs", "in [xs[0], xs[1]]"),
    ):
        assert program_key(changed) != program_key(text)


def test_a_name_inside_a_text_is_no_name() -> None:
    assert program_key("def f(s):\n    return s + 'a'\n") != program_key(
        "def f(s):\n    return s + 'b'\n"
    )
