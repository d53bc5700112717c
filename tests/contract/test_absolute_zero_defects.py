"""Absolute Zero Reasoner's known defects, one test each: its approach, in miniature, is fooled;
ours is not.

The miniatures are written here from the description of the defects; nothing of that code base is
used.
"""

import random

import pytest

from redqueen.config.stages import ProposeConfig, VerifyConfig
from redqueen.config.toml import load_config
from redqueen.core.archive import Archive
from redqueen.errors import ConfigError
from redqueen.records import Problem, Proposal, Rejection
from redqueen.rng import stream
from redqueen.sandbox import Job
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.propose import render_proposal
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_proposals
from redqueen.tasks.code import KINDS
from redqueen.tasks.prompts import load_prompt_format
from tests.contract.texts import chat
from tests.problems import addition

CHAT = load_prompt_format("chat")


def propose(
    pool: SandboxPool, program: str, given: str = "1", config: VerifyConfig | None = None
) -> Problem | Rejection:
    proposal = Proposal("code_o", chat(("program", program), ("input", given)))
    return verify_proposals([proposal], KINDS, CHAT, pool, config or VerifyConfig())[0]


def reason(verdict: Problem | Rejection) -> str:
    assert isinstance(verdict, Rejection), verdict
    return verdict.reason


def attempt(pool: SandboxPool, problem: Problem, label: str, answer: str) -> str:
    answers = [(problem, chat((label, answer)))]
    return grade_answers(answers, KINDS, CHAT, pool, VerifyConfig())[0].verdict


def exec_f(program: str) -> object:
    namespace: dict[str, object] = {}
    exec(program, namespace)
    return namespace["f"]


def a_problem(pool: SandboxPool, kind: str, program: str, given: str) -> Problem:
    verdict = verify_proposals(
        [Proposal(kind, chat(("program", program), ("input", given)))],
        KINDS,
        CHAT,
        pool,
        VerifyConfig(),
    )[0]
    assert isinstance(verdict, Problem), verdict
    return verdict


def test_1_a_random_program_is_rejected_by_its_values_not_by_a_word_in_its_output(
    pool: SandboxPool,
) -> None:
    program = "import random\ndef f(x): return random.random()"
    f = exec_f(program)
    their_check = "error" not in f"{f(1)} {f(1)}"  # type: ignore[operator]
    assert their_check  # passes though the two values differ
    assert pool.run([Job(program, ("1",), stable=True)])[0].kind == "unstable"
    assert reason(propose(pool, program)) == "forbidden_import"
    assert (
        reason(propose(pool, program, config=VerifyConfig(allowed_modules=frozenset({"random"}))))
        == "unstable"
    )


def test_2_a_long_output_is_rejected_not_cut(pool: SandboxPool) -> None:
    program = "def f(n): return list(range(n))"
    their_gold = repr(list(range(200)))[:400]
    with pytest.raises(SyntaxError):
        compile(their_gold, "gold", "eval")  # no answer can equal it
    verdict = propose(pool, program, "200")
    assert isinstance(verdict, Problem)
    assert verdict.gold == (repr(list(range(200))),)
    assert reason(propose(pool, program, "900")) == "too_long"


@pytest.mark.parametrize(
    "answer",
    [
        "eval(gold_output)",
        "gold_output",
        "type('A', (), {'__eq__': lambda s, o: True})()",
        "1 if True else 2",
    ],
)
def test_3a_an_output_that_is_code_earns_nothing(pool: SandboxPool, answer: str) -> None:
    gold_output = "7"
    their_verdict = eval(
        f"({answer}) == {gold_output} or {answer} == '{gold_output}'", {"gold_output": gold_output}
    )
    assert their_verdict or answer.startswith("1 if")
    problem = a_problem(pool, "code_o", "def f(x): return x + 6", "1")
    assert problem.gold == (gold_output,)
    assert attempt(pool, problem, "output", answer) == "malformed"


def test_3b_an_input_that_closes_the_call_earns_nothing(pool: SandboxPool) -> None:
    program, answer = "def f(x): return x + 6", "0) or (True"
    assert eval(f"7 == f({answer})", {"f": exec_f(program)})
    problem = a_problem(pool, "code_i", program, "1")
    assert attempt(pool, problem, "input", answer) == "malformed"
    assert attempt(pool, problem, "input", "1") == "correct"


def test_3c_an_object_that_equals_everything_is_no_value(pool: SandboxPool) -> None:
    program = "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()"
    assert exec_f(program)(1) == 12345  # type: ignore[operator]
    assert reason(propose(pool, program)) == "unsupported"
    inputs = [("input", str(number)) for number in range(10)]
    base = a_problem(pool, "code_o", "def f(x): return x * 2", "1")
    problem = verify_proposals(
        [Proposal("code_f", chat(("message", "double"), *inputs), (base,))],
        KINDS,
        CHAT,
        pool,
        VerifyConfig(),
    )[0]
    assert isinstance(problem, Problem)
    assert attempt(pool, problem, "program", program) == "wrong"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("1", "True"), ("1", "1.0"), ("0", "False"), ("'1'", "1"), ("'1.0'", "'1'"), ("(1,)", "[1]")],
)
def test_3d_types_count(pool: SandboxPool, gold: str, answer: str) -> None:
    assert (
        eval(f"{gold} == {answer}")
        or str(eval(gold)).rstrip(".0") == str(eval(answer)).rstrip(".0")
        or list(eval(gold)) == list(eval(answer))
    )
    problem = a_problem(pool, "code_o", f"def f(x): return {gold}", "1")
    assert attempt(pool, problem, "output", answer) == "wrong"
    assert attempt(pool, problem, "output", gold) == "correct"


def test_4_an_answer_is_never_evaluated_and_imports_meet_a_list_of_modules(
    pool: SandboxPool, tmp_path: object
) -> None:
    canary = f"{tmp_path}/touched"
    answer = f"__import__('pathlib').Path({canary!r}).touch()"
    problem = a_problem(pool, "code_o", "def f(x): return None", "1")
    assert attempt(pool, problem, "output", answer) == "malformed"
    from pathlib import Path

    assert not Path(canary).exists()
    eval(answer)  # what evaluating it in the trainer would have done
    assert Path(canary).exists()
    banned_words = ["os.sys", "logging", "random"]
    for program in (
        "import os\ndef f(x): return 1",
        "def f(x): return open('/etc/passwd').read()",
        "def f(x): return __import__('os').getpid()",
        "from os import sys\ndef f(x): return 1",
    ):
        assert not any(
            f"import {word}" in program for word in banned_words
        )  # passes a search for banned words
        assert reason(propose(pool, program)) in ("forbidden_import", "forbidden_name")


def test_5_checks_run_side_by_side(pool: SandboxPool) -> None:
    pool.run([Job("def f(): return 1")] * 10)
    assert pool.most_in_flight == len(pool.workers) == 2


def test_6_attempts_are_sampled_never_greedy() -> None:
    greedy = {int(answer == "7") for answer in ["7"] * 8}
    assert len(greedy) == 1  # a greedy student answers alike: its solve rate is 0 or 1
    with pytest.raises(ConfigError, match=r"solve.temperature"):
        load_config(None, ["solve.temperature=0"])
    with pytest.raises(ConfigError, match=r"solve.attempts"):
        load_config(None, ["solve.attempts=1"])


def test_7_set_order_and_custom_objects_are_caught(pool: SandboxPool) -> None:
    program = "def f(words): return ' '.join(set(words))"
    given = "['red', 'queen', 'white', 'rabbit', 'hatter']"
    f = exec_f(program)
    assert f(eval(given)) == f(eval(given))  # type: ignore[operator]  # two runs in one process agree
    assert reason(propose(pool, program, given)) == "unstable"
    assert reason(propose(pool, "class P:\n    pass\ndef f(x): return P()")) == "unsupported"


def test_8_the_archive_drops_the_oldest_and_every_sample_has_a_seed() -> None:
    theirs = [addition(number) for number in range(5)][:3]
    # the newest are lost, and the archive stands still
    assert [problem.gold[0] for problem in theirs] == ["1", "2", "3"]
    archive = Archive(3, [addition(number) for number in range(5)])
    assert [problem.gold[0] for problem in archive] == ["3", "4", "5"]
    random.seed()
    assert archive.sample(2, stream(0, "references")) == archive.sample(2, stream(0, "references"))


def test_9_a_prompt_that_is_too_long_is_shortened_and_stops_nothing(pool: SandboxPool) -> None:
    long = a_problem(pool, "code_o", "def f(x):\n    # " + "long " * 700 + "\n    return x", "1")
    short = a_problem(pool, "code_o", "def f(x): return x", "1")
    limit = 6000
    whole = CHAT.render(KINDS["code_o"].ask_proposal([short, long, short]))
    assert [
        prompt for prompt in [whole] if len(prompt.text) <= limit - 2000
    ] == []  # filtering by length leaves nothing to train on
    prompt, shown = render_proposal(
        KINDS["code_o"], [short, long, short], CHAT, ProposeConfig(max_prompt_chars=limit - 2000)
    )
    assert len(prompt.text) <= limit - 2000
    assert shown == (short, short)
