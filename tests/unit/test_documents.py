"""Pawn's documents: the prompt format parses them back, a seed alone makes them, and they contain
no held-out program."""

import ast
from statistics import fmean

import pytest

from redqueen.pawn.documents import SHARD, make_problem, make_shard, write_proposal, write_solution
from redqueen.pawn.heldout import excluded_keys, load_suite
from redqueen.pawn.problems import random_payloads
from redqueen.pawn.programs import Program, is_reserved, program_key, sample_program
from redqueen.rng import stream
from redqueen.sandbox.inspection.canonical import canonical_program
from redqueen.tasks.code import KINDS
from redqueen.tasks.prompts import has_reasoning
from redqueen.tasks.prompts.compact import CompactFormat

pytestmark = pytest.mark.slow

FORMAT = CompactFormat()


@pytest.fixture(scope="module")
def documents() -> list[str]:
    return make_shard(0, 0, frozenset())


def programs(count: int = 20) -> list[Program]:
    rng = stream(5, "tests", "documents")
    return [sample_program(rng, 1 + number % 10) for number in range(count)]


def programs_of(documents: list[str]) -> set[str]:
    """Every program that the documents show."""
    blocks = [block for document in documents for block in document.split(">>program\n")[1:]]
    return {block.partition("\n>>")[0] + "\n" for block in blocks}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_solving_document_is_the_students_prompt_and_the_right_answer(kind: str) -> None:
    for program in programs():
        problem = make_problem(kind, program, 4)
        prompt, document = (
            FORMAT.render(KINDS[kind].ask_answer(problem)).text,
            write_solution(kind, program, 4),
        )
        assert document.startswith(prompt)
        answer = KINDS[kind].read_answer(
            FORMAT.parse(document.removeprefix(prompt), KINDS[kind].answer_blocks)
        )
        assert (
            answer
            == {"code_o": program.outputs[4], "code_i": program.inputs[4], "code_f": program.text}[
                kind
            ]
        )


def test_the_reasoning_of_a_deduction_is_the_trace_of_the_run() -> None:
    for program in programs():
        reasoning = (
            write_solution("code_o", program, 2)
            .partition(">>think\n")[2]
            .partition("\n>>output")[0]
        )
        assert tuple(reasoning.splitlines()) == program.traces[2]
        assert has_reasoning(write_solution("code_o", program, 2)) is bool(program.traces[2])
        assert not has_reasoning(write_solution("code_o", program, 2, with_reasoning=False))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_proposing_document_is_the_teachers_prompt_and_a_proposal(kind: str) -> None:
    *proposed, a, b, c = programs()
    for number, program in enumerate(proposed):
        document = write_proposal(kind, program, [a, b, c][: number % 4])
        prompt, mark, proposal = document.rpartition(">>new\n")
        assert mark
        references = [make_problem("code_o", program)] if kind == "code_f" else []
        draft = KINDS[kind].read_proposal(
            FORMAT.parse(proposal, KINDS[kind].proposal_blocks), references
        )
        expected = (program.inputs, program.hint) if kind == "code_f" else (program.inputs[:1], "")
        assert (draft.program, draft.inputs, draft.message) == (program.text, *expected)
        assert prompt.startswith(f">>teacher {kind}\n")
        assert (program.text in prompt) == (kind == "code_f")


def test_a_shard_is_a_function_of_its_seed_and_number(documents: list[str]) -> None:
    assert make_shard(0, 0, frozenset()) == documents
    for other in (make_shard(0, 1, frozenset()), make_shard(1, 0, frozenset())):
        # a short document of tier 1 may come twice
        assert len(set(documents) & set(other)) < 0.005 * len(documents)


def test_a_shard_has_documents_of_every_kind_and_role(documents: list[str]) -> None:
    heads = [document.partition("\n")[0] for document in documents]
    assert set(heads) == {f">>{role} {kind}" for role in ("teacher", "student") for kind in KINDS}
    assert all(
        document.endswith(">>end") and document.count(">>end") == 1 for document in documents
    )
    assert len(programs_of(documents)) > 0.9 * SHARD


def test_an_excluded_program_is_in_no_document(documents: list[str]) -> None:
    shown = {program_key(text) for text in programs_of(documents)}
    excluded = frozenset(sorted(shown)[::2])
    assert not excluded & {program_key(text) for text in programs_of(make_shard(0, 0, excluded))}


def test_no_held_out_program_is_in_the_documents_by_canonical_form() -> None:
    held_out = {
        canonical_program(ast.parse(item.problem.payload.program)) for item in load_suite("heldout")
    }
    assert len(held_out) == len(excluded_keys()) == 2400
    for number in (0, -1):  # one to learn from, one to find the vocabulary from
        shown = {
            canonical_program(ast.parse(text))
            for text in programs_of(make_shard(0, number, excluded_keys()))
        }
        assert len(shown) > 0.8 * SHARD
        assert not shown & held_out


def test_no_document_and_no_random_problem_has_a_reserved_program(documents: list[str]) -> None:
    shown = [program_key(text) for text in programs_of(documents)]
    payloads = random_payloads(stream(0, "test"), 60, range(4, 8), sorted(KINDS))
    shown += [program_key(code.program) for _, code in payloads]
    assert len(shown) > 300 and not any(map(is_reserved, shown))


def test_a_share_of_the_answers_of_deduction_comes_without_reasoning(
    documents: list[str],
) -> None:
    def counts(documents: list[str]) -> tuple[int, int]:
        solved = [document for document in documents if document.startswith(">>student code_o")]
        return len(solved), sum(">>think" in document for document in solved)

    total, with_reasoning = counts(documents)
    half, none = (make_shard(0, 0, frozenset(), share) for share in (0.5, 0.0))
    assert counts(none) == (total, 0)
    assert 0.4 * with_reasoning < counts(half)[1] < 0.6 * with_reasoning
    assert [one for one in half if not one.startswith(">>student code_o")] == [
        one for one in documents if not one.startswith(">>student code_o")
    ]


def test_above_a_tier_no_answer_comes_with_reasoning(documents: list[str]) -> None:
    low = make_shard(0, 0, frozenset(), reasoning_tier=3)
    assert len(low) == len(documents)
    lost = [
        before
        for before, after in zip(documents, low, strict=True)
        if before != after and ">>think" in before and ">>think" not in after
    ]
    kept = [document for document in low if ">>think" in document]
    assert len(lost) + len(kept) == sum(">>think" in document for document in documents)
    assert 0 < len(kept) < len(lost)
    assert fmean(map(len, kept)) < fmean(map(len, lost))


def test_above_a_tier_problems_are_posed_and_not_solved(documents: list[str]) -> None:
    low = make_shard(0, 0, frozenset(), solving_tier=3)
    posed = {document for document in documents if document.startswith(">>teacher")}
    assert posed == {document for document in low if document.startswith(">>teacher")}
    assert len(posed) < len(low) < 0.6 * len(documents)
    assert set(low) < set(documents)
