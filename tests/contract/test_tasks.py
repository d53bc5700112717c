"""The three code kinds, in both prompt formats: a proposal becomes a problem, the problem is asked, answers are
graded."""

from dataclasses import replace

import pytest

from redqueen.config.schema import Config
from redqueen.config.stages import ProposeConfig
from redqueen.records import Problem, Proposal, Rejection
from redqueen.sandbox import Job, Outcome, Result
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.propose import render_proposal
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import Reject
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.code.programs import Code, unverified_reference
from redqueen.tasks.kind import RunRules
from redqueen.tasks.prompts import load_prompt_format
from tests.contract.texts import WRITERS

PROGRAM = "def f(numbers, k):\n    return [n * k for n in numbers if n % 2]"
CONFIG = Config().verify
FORMATS = sorted(WRITERS)


def verified(
    pool: SandboxPool,
    kind: str,
    prompt_format: str,
    *blocks: tuple[str, str],
    references: tuple[Problem, ...] = (),
) -> Problem | Rejection:
    proposal = Proposal(kind, WRITERS[prompt_format](*blocks), references)
    return verify_proposals([proposal], KINDS, load_prompt_format(prompt_format), pool, CONFIG)[0]


def a_problem(pool: SandboxPool, kind: str = "code_o", prompt_format: str = "chat") -> Problem:
    problem = verified(
        pool,
        "code_o" if kind == "code_f" else kind,
        prompt_format,
        ("program", PROGRAM),
        ("input", "[1,2,3], 10"),
    )
    assert isinstance(problem, Problem), problem
    if kind != "code_f":
        return problem
    inputs = [("input", f"[{number}, {number + 1}, 7], {number}") for number in range(10)]
    problem = verified(
        pool, kind, prompt_format, ("message", "odd ones"), *inputs, references=(problem,)
    )
    assert isinstance(problem, Problem), problem
    return problem


def ask(kind: str, problem: Problem, prompt_format: str) -> str:
    """What a student is shown."""
    return load_prompt_format(prompt_format).render(KINDS[kind].ask_answer(problem)).text


def verdicts(
    pool: SandboxPool, problem: Problem, prompt_format: str, *answers: tuple[str, str]
) -> list[str]:
    texts = [(problem, WRITERS[prompt_format](answer)) for answer in answers]
    return [
        attempt.verdict
        for attempt in grade_answers(texts, KINDS, load_prompt_format(prompt_format), pool, CONFIG)
    ]


@pytest.mark.parametrize("prompt_format", FORMATS)
def test_a_deduction_problem_is_verified_asked_and_graded(
    pool: SandboxPool, prompt_format: str
) -> None:
    problem = a_problem(pool, "code_o", prompt_format)
    assert (problem.payload.inputs, problem.gold) == (("[1, 2, 3], 10",), ("[10, 30]",))
    prompt = ask("code_o", problem, prompt_format)
    assert PROGRAM in prompt
    assert "[1, 2, 3], 10" in prompt
    assert "[10, 30]" not in prompt
    answers = [
        ("output", text)
        for text in (
            "[10, 30]",
            " [10,30]\n",
            "[10, 30.0]",
            "(10, 30)",
            "list([10, 30])",
            "f([1, 2, 3], 10)",
            "",
        )
    ]
    assert verdicts(pool, problem, prompt_format, *answers) == [
        "correct",
        "correct",
        "wrong",
        "wrong",
        "malformed",
        "malformed",
        "malformed",
    ]


@pytest.mark.parametrize("prompt_format", FORMATS)
def test_any_input_that_gives_the_output_solves_an_abduction_problem(
    pool: SandboxPool, prompt_format: str
) -> None:
    problem = a_problem(pool, "code_i", prompt_format)
    prompt = ask("code_i", problem, prompt_format)
    assert "[10, 30]" in prompt
    assert "[1, 2, 3], 10" not in prompt
    answers = [
        ("input", text)
        for text in (
            "[1, 2, 3], 10",
            "[5, 15], 2",
            "[1], 10",
            "[1, 3]",
            "0) or (True",
            "[1, 3], 10 ** 1",
            "'ab', 1",
        )
    ]
    assert verdicts(pool, problem, prompt_format, *answers) == [
        "correct",
        "correct",
        "wrong",
        "wrong",
        "malformed",
        "malformed",
        "wrong",
    ]


@pytest.mark.parametrize("prompt_format", FORMATS)
def test_an_induction_answer_is_correct_if_it_answers_the_hidden_pairs(
    pool: SandboxPool, prompt_format: str
) -> None:
    problem = a_problem(pool, "code_f", prompt_format)
    assert len(problem.payload.inputs) == len(problem.gold) == 10
    prompt = ask("code_f", problem, prompt_format)
    assert "odd ones" in prompt
    assert problem.payload.inputs[4] in prompt
    assert problem.payload.inputs[5] not in prompt
    assert PROGRAM not in prompt
    table = dict(zip(problem.payload.inputs[:5], problem.gold[:5], strict=True))
    programs = [
        "def f(xs, m):\n    out = []\n    for x in xs:\n        if x % 2 == 1: out.append(m * x)\n    return out",
        f"def f(*a):\n    return {{{', '.join(f'({k},)' + ': ' + v for k, v in table.items())}}}[a]".replace("[", "(").replace("]", ",)"),
        "def f(xs, m):\n    return [x * m for x in xs]",
        "import os\ndef f(xs, m):\n    return os.getcwd()",
        "def f(xs, m):\n    while True: pass",
        "def g(xs, m): return []",
    ]  # fmt: skip
    assert verdicts(
        pool, problem, prompt_format, *[("program", program) for program in programs]
    ) == [
        "correct",
        *["wrong"] * 5,
    ]


@pytest.mark.parametrize("prompt_format", FORMATS)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_a_format_shows_of_a_problem_can_be_written_back(
    pool: SandboxPool, kind: str, prompt_format: str
) -> None:
    """Rendering and parsing agree: a problem's own parts, in the format's typography, give the
    problem again."""
    problem = a_problem(pool, kind, prompt_format)
    parts = {
        "program": [problem.payload.program],
        "input": list(problem.payload.inputs),
        "message": [problem.payload.message],
    }
    blocks = [(label, parts[label].pop(0)) for label in KINDS[kind].proposal_blocks]
    again = verified(pool, kind, prompt_format, *blocks, references=(problem,))
    assert again == problem


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([("program", PROGRAM)], "malformed"),
        ([("program", ""), ("input", "1")], "malformed"),
        ([("program", PROGRAM), ("input", "[1, 2], k")], "malformed"),
        ([("program", "def f(x)"), ("input", "1")], "error"),
        ([("program", "def g(x): return x"), ("input", "1")], "entry"),
        ([("program", "import time\ndef f(x): return time.time()"), ("input", "1")], "forbidden_import"),
        ([("program", "def f(x): return id(x)"), ("input", "1")], "forbidden_name"),
        ([("program", "def f(x): return x.__class__"), ("input", "1")], "forbidden_attribute"),
        ([("program", "def f(x): return x / 0"), ("input", "1")], "error"),
        ([("program", "def f(x):\n    while x: pass"), ("input", "1")], "timeout"),
        ([("program", "def f(x): return [0] * 10**10"), ("input", "1")], "memory"),
        ([("program", "def f(x): return list(set(x))"), ("input", "['a', 'b', 'c', 'd', 'e', 'f', 'g']")], "unstable"),
        ([("program", "def f(x): return (i for i in x)"), ("input", "[1]")], "unsupported"),
        ([("program", "def f(x): return 'a' * 2000"), ("input", "1")], "too_long"),
        ([("program", "def f(x): return x\n#" + "a" * 5000), ("input", "1")], "too_long"),
        ([("program", "def f(x): return 1"), ("input", f"'{'a' * 2000}'")], "too_long"),
        ([("program", "from dataclasses import sys\ndef f(x): return sys.path"), ("input", "1")], "forbidden_import"),
    ],
)  # fmt: skip
def test_every_rejection_has_its_reason(
    pool: SandboxPool, blocks: list[tuple[str, str]], reason: str
) -> None:
    verdict = verified(pool, "code_o", "chat", *blocks)
    assert isinstance(verdict, Rejection), verdict
    assert verdict.reason == reason


def test_a_program_that_answers_and_ends_its_process_is_rejected() -> None:
    """The values are its own claim; what the sandbox writes after them is missing."""
    outcome = Outcome("value", (Result("value", "1"),))
    with pytest.raises(Reject, match="did not come to its end") as error:
        KINDS["code_o"].verified(Code("def f(x): return 1", ("1",)), outcome, RunRules.of(CONFIG))
    assert error.value.reason == "crashed"


@pytest.mark.parametrize(
    ("blocks", "detail"),
    [
        ([("message", "m"), *[("input", f"[{n}], 1") for n in range(7)]], "7 different inputs"),
        ([("message", "m"), *[("input", "[1], 1")] * 10], "1 different inputs"),
        ([("input", f"[{n}], 1") for n in range(10)], "message"),
    ],
)
def test_an_induction_proposal_needs_enough_different_inputs_and_a_message(
    pool: SandboxPool, blocks: list[tuple[str, str]], detail: str
) -> None:
    verdict = verified(pool, "code_f", "chat", *blocks, references=(a_problem(pool),))
    assert isinstance(verdict, Rejection)
    assert (verdict.reason, detail in verdict.detail) == ("malformed", True)


@pytest.mark.parametrize(("length", "accepted"), [(500, True), (501, False)])
def test_a_message_has_a_longest_length(pool: SandboxPool, length: int, accepted: bool) -> None:
    inputs = [("input", f"[{n}], 1") for n in range(10)]
    message = ("message", "a" * length)
    verdict = verified(pool, "code_f", "chat", message, *inputs, references=(a_problem(pool),))
    if accepted:
        assert isinstance(verdict, Problem)
    else:
        assert isinstance(verdict, Rejection) and verdict.reason == "too_long"
        assert verdict.detail == "message of 501 characters, at most 500"


def test_an_input_that_is_written_twice_is_left_out(pool: SandboxPool) -> None:
    inputs = [("input", f"[{n}], 1") for n in (0, 1, 2, 3, 4, 5, 5, 6, 7, 0)]
    problem = verified(
        pool, "code_f", "chat", ("message", "m"), *inputs, references=(a_problem(pool),)
    )
    assert isinstance(problem, Problem)
    assert problem.payload.inputs == tuple(f"[{n}], 1" for n in range(8))


def test_the_same_problem_again_is_a_duplicate_whatever_its_names(pool: SandboxPool) -> None:
    texts = [
        WRITERS["chat"](("program", program), ("input", given))
        for program, given in (
            (PROGRAM, "[1, 2, 3], 10"),
            (PROGRAM.replace("numbers", "xs").replace("k", "m"), "[1,2,3],10"),
            (PROGRAM, "[1], 10"),
        )
    ]
    proposals = [Proposal("code_o", text) for text in texts]
    first, second, third = verify_proposals(
        proposals, KINDS, load_prompt_format("chat"), pool, CONFIG
    )
    assert isinstance(first, Problem)
    assert isinstance(second, Rejection)
    assert second.reason == "duplicate"
    assert isinstance(third, Problem)
    assert verify_proposals(
        proposals[:1], KINDS, load_prompt_format("chat"), pool, CONFIG, known={first.key}
    )[0] == Rejection("duplicate", first.key)


@pytest.mark.parametrize("prompt_format", FORMATS)
def test_references_are_left_out_until_a_prompt_fits(pool: SandboxPool, prompt_format: str) -> None:
    problem = a_problem(pool)
    config = ProposeConfig(max_prompt_chars=4000)
    prompt, shown = render_proposal(
        KINDS["code_o"], [problem] * 6, load_prompt_format(prompt_format), config
    )
    assert len(shown) == 6
    assert prompt.text.count(PROGRAM) == 6
    short, fewer = render_proposal(
        KINDS["code_o"],
        [problem] * 6,
        load_prompt_format(prompt_format),
        ProposeConfig(max_prompt_chars=len(prompt.text) - 1),
    )
    assert len(fewer) == 5
    assert len(short.text) < len(prompt.text)
    assert render_proposal(
        KINDS["code_o"],
        [problem] * 6,
        load_prompt_format(prompt_format),
        ProposeConfig(max_prompt_chars=1),
    )[1] == (problem,)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("<answer>[10, 30]</answer>", "correct"),
        ("<think>hm</think><answer>\n[10, 30]\n", "correct"),
        (
            "<think>maybe <answer>[1]</answer></think>\n<answer>\n```python\n[10, 30]\n```\n</answer>",
            "correct",
        ),
        ("<answer>```output\n[10, 30]</answer>", "malformed"),
        ("<answer>[10, 30]</answer><answer>[1]</answer>", "malformed"),
        ("The output is [10, 30].", "malformed"),
        ("<answer></answer>", "malformed"),
        ("<answer>\n" + "```x\n" * 20_000, "malformed"),
        ("<answer>\n```output\n[10, 30]\n```\n```output\n[1]\n```\n</answer>", "malformed"),
    ],
)
def test_chat_answers_are_read_with_a_little_patience_and_no_guessing(
    pool: SandboxPool, text: str, verdict: str
) -> None:
    assert (
        grade_answers([(a_problem(pool), text)], KINDS, load_prompt_format("chat"), pool, CONFIG)[
            0
        ].verdict
        == verdict
    )


@pytest.mark.parametrize(("kind", "role"), FEW_SHOT)
def test_the_few_shot_replies_are_correct(pool: SandboxPool, kind: str, role: str) -> None:
    task, problem, prompt_format, few_shot = (
        KINDS[kind],
        a_problem(pool, kind),
        load_prompt_format("chat"),
        FEW_SHOT[kind, role],
    )
    prompt = prompt_format.render(
        task.ask_proposal([problem]) if role == "teacher" else task.ask_answer(problem)
    )
    ((asked, reply),) = prompt.before
    assert asked != prompt.text and asked.splitlines()[0] == prompt.text.splitlines()[0]
    shown = dict(few_shot.given)
    if role == "teacher":
        reference = unverified_reference(shown.get("program", ""))
        proposal = Proposal(kind, reply, (reference,))
        (verdict,) = verify_proposals([proposal], KINDS, prompt_format, pool, CONFIG)
        assert isinstance(verdict, Problem), verdict
        return
    if kind == "code_f":
        program = dict(few_shot.reply)["program"]
        given: dict[str, list[str]] = {label: [] for label in ("message", "input", "output")}
        for label, text in few_shot.given:
            given[label].append(text)
        (outcome,) = pool.run([Job(program, tuple(given["input"]))])
        assert list(outcome.values) == given["output"]
        return
    inputs, outputs = (shown.get("input", "4"),), (shown.get("output", "'6'"),)
    code = replace(problem.payload, program=shown["program"], inputs=inputs)
    problem = replace(problem, payload=code, gold=outputs)
    (attempt,) = grade_answers([(problem, reply)], KINDS, prompt_format, pool, CONFIG)
    assert attempt.verdict == "correct"
    (outcome,) = pool.run([Job(shown["program"], (shown.get("input", "4"),))])
    assert outcome.values == outputs
