"""A problem has to be when answers are graded what it was when it was verified: jobs of one shape,
and a control beside every answer. A problem whose control fails is void for everybody."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.config.sandbox import SandboxConfig
from redqueen.config.stages import VerifyConfig
from redqueen.ledger.store import open_to_read
from redqueen.records import Problem
from redqueen.report.findings.teachers import voided
from redqueen.sandbox import Job, Outcome
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_payloads
from redqueen.tasks import Reject, RunRules, load_kinds
from redqueen.tasks.code.programs import Code
from redqueen.tasks.prompts import load_prompt_format
from redqueen.testing import check_kind
from tests.contract.test_kind_without_programs import STUDENTS, TEACHERS
from tests.contract.texts import WRITERS
from tests.outside.things import NoSandbox
from tests.scripted import TrustingSandbox, play, scripted_run

KINDS, RULES = load_kinds(), RunRules.of(VerifyConfig())
FICKLE = "tests.outside.fickle:Fickle"


def abduction(pool: SandboxPool, program: str, given: str) -> Problem:
    (problem,) = verify_payloads(
        [("code_i", Code(program, (given,)), None)], KINDS, pool, VerifyConfig()
    )
    assert isinstance(problem, Problem), problem
    return problem


def verdicts(pool: SandboxPool, problem: Problem, *answers: str) -> list[str]:
    texts = [(problem, WRITERS["chat"](("input", answer))) for answer in answers]
    attempts = grade_answers(
        texts, KINDS, load_prompt_format("chat"), pool, VerifyConfig(cpu_s=0.3)
    )
    return [attempt.verdict for attempt in attempts]


@pytest.mark.parametrize("kind", ["code_i", "code_f"])
def test_a_grading_job_differs_from_verification_in_program_and_inputs_alone(kind: str) -> None:
    code = Code("def f(x): return x % 3", tuple(map(str, range(10))))
    problem = Problem("key", kind, code, ("0",) * 10, {})
    verification = KINDS[kind].verification(code, RULES)
    grading = KINDS[kind].grading(problem, "4", RULES)
    assert verification is not None and grading is not None
    assert replace(grading, program=code.program, inputs=code.inputs) == verification


def test_comparing_two_literals_needs_no_job() -> None:
    problem = Problem("key", "code_o", Code("def f(x): return x", ("1",)), ("1",), {})
    assert KINDS["code_o"].grading(problem, "1", RULES) is None


def test_a_problem_that_no_longer_gives_its_gold_answer_is_void_whatever_is_answered(
    pool: SandboxPool,
) -> None:
    problem = abduction(pool, "def f(x): return 12 // x", "3")
    assert verdicts(pool, problem, "3", "5", "0", "'a'", "x") == [
        "correct", "wrong", "wrong", "wrong", "malformed",
    ]  # fmt: skip
    other = replace(problem, gold=("5",))  # as if verification had seen another program
    assert verdicts(pool, other, "3", "2", "0", "'a'", "x") == [*["voided"] * 4, "malformed"]


@pytest.mark.parametrize(
    ("program", "given", "answer"),
    [
        ("def f(n):\n    while n: pass\n    return n", "0", "1"),
        ("def f(n): return len([0] * n)", "3", "10000000000"),
        ("def f(n): return 'a' * n", "1", "1000000"),
        ("def f(words): return list(set(words))", "['a']", str([f"w{n}" for n in range(9)])),
        ("def f(n): return n and f(n - 1)", "0", "100000"),
    ],
)
def test_an_answer_cannot_void_a_problem_by_running_into_a_limit(
    pool: SandboxPool, program: str, given: str, answer: str
) -> None:
    problem = abduction(pool, program, given)
    assert verdicts(pool, problem, answer, given) == ["wrong", "correct"]


def test_a_program_that_an_input_beside_it_would_bring_to_the_limit_is_rejected(
    pool: SandboxPool,
) -> None:
    code = Code("def f(x): return x", ("1",))
    job = KINDS["code_i"].verification(code, RULES)
    assert job is not None
    (outcome,) = pool.run([job])
    KINDS["code_i"].verified(code, outcome, RULES)
    with pytest.raises(Reject, match="in all processes") as error:
        KINDS["code_i"].verified(code, replace(outcome, cpu_s=1.01), RULES)
    assert error.value.reason == "timeout"


def test_equal_answers_are_executed_once() -> None:
    ran: list[Job] = []

    class Counting(TrustingSandbox):
        def run(self, jobs: Sequence[Job]) -> list[Outcome]:
            ran.extend(jobs)
            return super().run(jobs)

    problem = Problem("key", "code_i", Code("def f(x): return 1", ("1",)), ("1",), {})
    texts = [f"<think>{n}</think><answer>\n```input\n{n % 2}\n```\n</answer>" for n in range(6)]
    attempts = grade_answers(
        [(problem, text) for text in texts],
        KINDS,
        load_prompt_format("chat"),
        Counting(),
        VerifyConfig(),
    )
    assert [job.inputs for job in ran] == [("1", "0"), ("1", "1")]
    assert [attempt.verdict for attempt in attempts] == ["correct"] * 6


def test_the_contract_of_plug_ins_wants_jobs_of_one_shape(pool: SandboxPool) -> None:
    proposal = ">>program\ndef f(x): return x * 2\n>>input\n21\n>>end"
    (problem,) = check_kind(
        "code_i",
        proposals=[proposal],
        answers=[">>input\n21\n>>end"],
        wrong=[">>input\n20\n>>end"],
        sandbox=pool,
    )
    assert problem.gold == ("42",)
    with pytest.raises(AssertionError, match=r"rules\.job"):
        check_kind(
            "tests.outside.fickle:Careless",
            proposals=[proposal],
            answers=[">>input\n21\n>>end"],
            sandbox=pool,
        )


def test_a_voided_problem_is_invalid_for_its_teacher_and_taught_to_nobody(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.jsonl"
    seeds.write_text(json.dumps({"kind": FICKLE, "payload": {"a": 8, "operator": "-", "b": 9}}))
    settings = ["steps=4", f"tasks.kinds=['{FICKLE}']", f"archive.seeds={seeds}", "evolve.every=0"]
    sandbox = NoSandbox(SandboxConfig())
    with scripted_run(tmp_path / "run", sandbox, TEACHERS, STUDENTS, settings) as run:
        play(run)
    with contextlib.closing(open_to_read(run.folder)) as ledger:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in ledger.execute(query)]

        proposals = rows(
            "SELECT step, proposal, problem, detail, solve_rate, reward FROM proposals "
            "WHERE rejection = 'voided'"
        )
        assert proposals
        assert {row[2:] for row in proposals} == {(None, "it is another sum now", None, -1.0)}
        attempts = rows(
            "SELECT DISTINCT step, proposal, verdict, reward, advantage FROM attempts "
            "WHERE (step, proposal) IN (SELECT step, proposal FROM proposals "
            "WHERE rejection = 'voided') OR verdict = 'voided'"
        )
        assert sorted(attempts) == sorted((*row[:2], "voided", 0.0, 0.0) for row in proposals)
        keys = rows("SELECT DISTINCT problem FROM attempts WHERE verdict = 'voided'")
        assert not set(keys) & set(rows("SELECT problem FROM problems"))
        assert not {key for (key,) in keys} & {problem.key for problem in run.worlds[0].archive}
        counted = rows("SELECT step, value FROM metrics WHERE name = 'verify/rejected/voided'")
        assert sum(value for _, value in counted) == len(proposals)
        shares = rows("SELECT value FROM metrics WHERE name = 'verify/voided_frac'")
        total = rows("SELECT count(*) FROM proposals")[0][0]
        assert sum(share for (share,) in shares) / 4 == pytest.approx(len(proposals) / total)
        graded = rows("SELECT count(*) FROM attempts WHERE verdict <> 'voided'")
        assert rows("SELECT sum(attempts) FROM pairings") == graded
        learned = rows("SELECT sum(samples) FROM updates WHERE member LIKE 'S%'")
        assert learned == rows("SELECT count(*) FROM attempts WHERE advantage <> 0")
    figures = {"rejections": {"totals": {"voided": len(proposals)}}}
    (finding,) = voided(figures)
    assert finding.text.startswith(f"{len(proposals)} problems were voided")


HOSTILE = "\x1b]0;taken\x07\x1b[2J [bold red]x[/] :boom: \u202edlrow"


def test_what_a_model_wrote_is_text_in_the_terminal(tmp_path: Path) -> None:
    """In an accepted problem, in a rejected one, in the reason, and in an error message."""
    program = f'def f(x):\n    """{HOSTILE}"""\n    return "\\x1b[31m[bold red]"'
    texts = [
        WRITERS["chat"](("program", program), ("input", "1")),
        WRITERS["chat"](("program", f"import os # {HOSTILE}"), ("input", "1")),
        WRITERS["chat"](("program", program), (HOSTILE, "1")),
    ]
    file = tmp_path / "proposals.jsonl"
    file.write_text("".join(json.dumps({"kind": "code_o", "text": text}) + "\n" for text in texts))
    result = CliRunner().invoke(app, ["verify", str(file)])
    assert result.exit_code == 0
    assert "1 of 3 proposals are problems" in result.output
    assert set("\x07\x1b\u202e").isdisjoint(result.output)
    for line in ("\\u001b]0;taken\\u0007", "[bold red]x[/] :boom: \\u202edlrow"):
        assert result.output.count(line) >= 2, result.output
    assert "output: '\\x1b[31m[bold red]'" in result.output
