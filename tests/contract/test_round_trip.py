"""What a prompt format shows of a request, it reads back: every kind, both roles, both formats, on
programs of every tier."""

from dataclasses import replace

import pytest

from redqueen.pawn.documents import make_problem
from redqueen.pawn.programs import Program, sample_program
from redqueen.rng import stream
from redqueen.tasks import Request
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.programs import Code
from redqueen.tasks.prompts import load_prompt_format
from tests.contract.texts import WRITERS

FORMATS = sorted(WRITERS)


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    rng = stream(6, "tests", "round trip")
    return [sample_program(rng, tier) for tier in range(1, 11) for _ in range(3)]


def shown(text: str, prompt_format: str) -> str:
    """The part of a prompt that shows blocks, as if a model had written it."""
    if prompt_format == "chat":
        return f"<answer>\n{text.partition('Write your reasoning between')[0]}\n</answer>"
    return text.partition("\n")[2].rpartition(">>")[0] + ">>end"


def blocks_in(request: Request) -> list[tuple[str, str]]:
    return [
        (label, text.rstrip())
        for block in (*request.examples, request.given)
        for label, text in block
    ]


@pytest.mark.parametrize("prompt_format", FORMATS)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_blocks_of_a_prompt_can_be_read_out_of_it(
    kind: str, prompt_format: str, programs: list[Program]
) -> None:
    for number, program in enumerate(programs):
        references = [make_problem("code_o", other) for other in programs[number : number + 4]]
        for request in (
            KINDS[kind].ask_answer(make_problem(kind, program, number % 10)),
            KINDS[kind].ask_proposal(references),
        ):
            prompt = load_prompt_format(prompt_format).render(request)
            expected = blocks_in(request)
            assert (
                load_prompt_format(prompt_format).parse(
                    shown(prompt.text, prompt_format), tuple(label for label, _ in expected)
                )
                == expected
            )
            # the form of a reply, which comes next, has the end of one
            asked = prompt.text.partition("Write your reasoning between")[0]
            assert not any(stop in asked for stop in prompt.stop)


@pytest.mark.parametrize("prompt_format", FORMATS)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_gold_answer_is_read_back_as_it_is(
    kind: str, prompt_format: str, programs: list[Program]
) -> None:
    task = KINDS[kind]
    for program in programs:
        gold = {"output": program.outputs[0], "input": program.inputs[0], "program": program.text}
        blocks = [(label, gold[label]) for label in task.answer_blocks]
        answer = task.read_answer(
            load_prompt_format(prompt_format).parse(
                WRITERS[prompt_format](*blocks), task.answer_blocks
            )
        )
        assert [answer] == [text for _, text in blocks]


@pytest.mark.parametrize("prompt_format", FORMATS)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_proposal_is_read_back_as_it_is(
    kind: str, prompt_format: str, programs: list[Program]
) -> None:
    task = KINDS[kind]
    for program in programs:
        problem = make_problem(kind, program)
        code: Code = problem.payload
        parts = {
            "program": iter([code.program]),
            "input": iter(code.inputs),
            "message": iter([code.message]),
        }
        blocks = [(label, next(parts[label])) for label in task.proposal_blocks]
        payload = task.read_proposal(
            load_prompt_format(prompt_format).parse(
                WRITERS[prompt_format](*blocks), task.proposal_blocks
            ),
            [problem],
        )
        assert payload == replace(code, canonical="")
