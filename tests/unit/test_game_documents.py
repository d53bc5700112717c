"""Pawn's documents of games and puzzles: the games and the kind themselves ask, their own readers
find the verdict and the answer correct, and no program is held out."""

import hashlib
import json
import re
from collections.abc import Iterator

import pytest
import torch
from tokenizers import Tokenizer

from redqueen.config.stages import VerifyConfig
from redqueen.errors import ConfigError
from redqueen.models.bundled import BUNDLED
from redqueen.pawn.critiques import (
    Shown,
    gold_verdict,
    sample_attempt,
    write_advice,
    write_critique,
    write_repair,
)
from redqueen.pawn.documents import make_problem, make_shard
from redqueen.pawn.heldout import excluded_keys
from redqueen.pawn.mistakes import mistaken_attempt, near_output
from redqueen.pawn.pretrain import Pretraining, _in_answers, pretrain
from redqueen.pawn.programs import Program, is_reserved, program_key, sample_program
from redqueen.pawn.puzzles import search, write_puzzle_documents
from redqueen.pawn.tokenizer import END_ID, PAD_ID
from redqueen.records import Attempt, Author, GameTurn, Member, Problem
from redqueen.rng import stream
from redqueen.sandbox import Outcome
from redqueen.sandbox.literals import canonical, parse_arguments
from redqueen.sandbox.protocol import Result
from redqueen.tasks import RunRules
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.tracer import f as trace_program
from redqueen.tasks.games.critique import CRITIQUE, Critique, judge_critique
from redqueen.tasks.games.game import GameChoice, Play
from redqueen.tasks.games.repair import REPAIR, Repair
from redqueen.tasks.logic import KINDS as LOGIC
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

FORMAT, DEDUCTION, PUZZLES = CompactFormat(), KINDS["code_o"], LOGIC["logic"]
RULES = RunRules.of(VerifyConfig())
STUDENTS = [Member(name, "student", slot) for slot, name in enumerate(("s0", "s1"))]
AUTHOR = Author("s0", 0)
CRITICS, ADVICE = Critique(type="critique"), Repair(type="repair")
PUZZLE = """{"variables": {"a": "1..3", "b": "1..3", "c": "1..3"},
"constraints": [[">=", "a", "b"], ["all_different", "a", "b", "c"], ["=", ["+", "a", "b"], "c"]]}"""
UNCHANGED = "ace693a2a7f254d153e92c8ba7b74c075402b6c00fd8de71c5361190a96cb810"
"""Of the documents of the first shard, as Pawn was trained on them."""

Case = tuple[Program, int, Problem, Shown]


@pytest.fixture(scope="module")
def documents() -> list[str]:
    return make_shard(0, 0, excluded_keys(), 0.4, critique_share=0.4, logic_share=0.1)


def cases(count: int = 60) -> Iterator[Case]:
    """Programs of all tiers with attempts of every sort."""
    rng = stream(5, "tests", "critiques")
    for number in range(count):
        program, place = sample_program(rng, 1 + number % 10), rng.randrange(10)
        care = 0.5 * (number % 2)
        attempt = sample_attempt(program, place, rng, number % 3 == 0, number % 4 > 0, care)
        yield program, place, make_problem("code_o", program, place), attempt


def game(choice: GameChoice, case: Case) -> Play:
    """The game about this attempt, which is the first, and another one of the other verdict."""
    program, place, problem, shown = case
    gold = program.outputs[place]
    right = shown.answer == gold
    other = near_output(program, place, stream(0, "other")) if right else gold
    thought = [("think", "\n".join(shown.lines))] if shown.lines else []
    texts = [write_blocks([*thought, ("output", shown.answer)]), write_blocks([("output", other)])]
    verdicts = ("correct", "wrong") if right else ("wrong", "correct")
    attempts = [
        Attempt(problem, text, verdict, author=AUTHOR)  # type: ignore[arg-type]
        for text, verdict in zip(texts, verdicts, strict=True)
    ]
    found = trace_program(program.text, parse_arguments(program.inputs[place]))
    trace = Outcome("value", (Result("value", canonical(found)),))
    return Play("game", choice, problem, DEDUCTION, FORMAT, attempts, STUDENTS, 0, trace)


def split(document: str) -> tuple[str, str]:
    """What is asked, and what is replied."""
    prompt, mark, reply = document.rpartition(">>answer\n")
    return prompt + mark, reply


@pytest.mark.slow
def test_without_shares_documents_are_as_they_were() -> None:
    text = "\0".join(make_shard(0, 0, frozenset(), 0.4))
    assert hashlib.sha256(text.encode()).hexdigest() == UNCHANGED


@pytest.mark.slow
def test_with_shares_the_documents_of_programs_stay_the_same(documents: list[str]) -> None:
    before = make_shard(0, 0, excluded_keys(), 0.4)
    heads = ("critic code_o", "adviser code_o", "repairer code_o", "student logic", "teacher logic")
    others = [one for one in documents if one.startswith(tuple(f">>{head}\n" for head in heads))]
    assert sorted(before) == sorted(set(documents) - set(others) | set(before))
    games = [one for one in others if "logic\n" not in one.partition("\n")[0] + "\n"]
    assert len(games) == pytest.approx(0.4 * len(documents), abs=2)
    assert len(others) - len(games) == pytest.approx(0.1 * len(documents), abs=2)
    assert documents == make_shard(0, 0, excluded_keys(), 0.4, critique_share=0.4, logic_share=0.1)


@pytest.mark.slow
def test_worked_out_steps_change_only_reasoning_and_critics_work_steps_out_too(
    documents: list[str],
) -> None:
    careful = make_shard(
        0, 0, excluded_keys(), 0.4, careful_share=0.3, critique_share=0.4, logic_share=0.1
    )
    plain = [re.sub(r"^: .*\n", "", document, flags=re.MULTILINE) for document in careful]
    own = (">>student code", ">>teacher code")
    pairs = [
        (one, other, bare)
        for one, other, bare in zip(
            *(sorted(texts, key=lambda text: not text.startswith(own)) for texts in (documents, careful, plain)),
            strict=True,
        )
        if one.startswith(own)
    ]  # fmt: skip
    worked = [one for one, other, _ in pairs if one != other]
    assert len(worked) > 100
    assert all(one.startswith(">>student code_o\n") for one in worked)
    # where a run sets nothing, all of its reasoning is working
    assert all(one in (bare, bare.replace(">>think\n", "")) for one, _, bare in pairs)
    critics = [split(one) for one in careful if one.startswith(">>critic")]
    assert sum("\n: " in reply for _, reply in critics) > 100  # its own working
    assert sum(": : " in prompt for prompt, _ in critics) > 100  # that of the attempt, numbered


@pytest.mark.slow
def test_half_of_what_critics_see_is_correct_and_most_of_it_fits_a_row(
    documents: list[str],
) -> None:
    critics = [one for one in documents if one.startswith(">>critic")]
    correct = sum(">>verdict\ncorrect\n" in one for one in critics)
    assert 0.46 < correct / len(critics) < 0.54
    reasons = sum(">>think" in split(one)[1] for one in critics)
    assert 0.35 < reasons / len(critics) < 0.45  # below a half: greedy critics do not
    tokenizer = Tokenizer.from_file(str(BUNDLED["pawn"] / "tokenizer.json"))
    sizes = [len(encoding.ids) for encoding in tokenizer.encode_batch(critics)]
    assert sum(size > 1025 for size in sizes) < 0.01 * len(critics)


@pytest.mark.slow
def test_no_critique_has_an_excluded_or_reserved_program(documents: list[str]) -> None:
    shown = [
        program_key(one.split(">>program\n")[1].partition("\n>>")[0] + "\n")
        for one in documents
        if one.startswith((">>critic", ">>adviser", ">>repairer"))
    ]
    assert len(shown) > 1000
    assert not any(map(is_reserved, shown)) and not excluded_keys() & set(shown)


@pytest.mark.parametrize("for_author", [False, True])
@pytest.mark.parametrize("reasons", [False, True])
def test_the_game_asks_as_in_the_document_and_finds_its_verdict_right(
    for_author: bool, reasons: bool
) -> None:
    lines = 0
    for case in cases():
        program, place, problem, shown = case
        settings: GameChoice = ADVICE if for_author else CRITICS
        play, rounds = game(settings, case), (REPAIR if for_author else CRITIQUE).rounds
        (ask,) = [ask for ask in rounds[0].ask(play, settings) if ask.shown == ("a0",)]
        advice = write_advice(program, place, shown)
        working = program.traces[place] if reasons else None
        document = write_critique(program, problem, place, shown, advice, working, for_author)
        prompt, reply = split(document)
        assert prompt == FORMAT.render(ask.request).text
        assert (">>think" in reply) == reasons
        judged = judge_critique(play, ask, FORMAT.parse(reply, ask.request.wanted), settings)
        assert judged.is_correct and judged.truth == play.attempts[0].verdict
        named = "line" in advice[1][1]
        assert judged.bonus == named
        if shown.lines and judged.truth == "wrong":  # no line is named where none is known
            known = DEDUCTION.first_wrong_line(problem, play.reasoning(0), play.trace)
            assert named == (known is not None)
        lines += named
    assert lines > 10


def test_an_author_is_asked_as_in_the_document_and_answers_right() -> None:
    for case in cases(30):
        program, place, problem, shown = case
        play, advice = game(ADVICE, case), write_advice(program, place, shown)
        text = write_blocks(list(advice))
        play.turns.append(GameTurn(1, "adviser", 0, ("a0",), text, "correct"))
        (ask,) = REPAIR.rounds[1].ask(play, ADVICE)
        working = program.traces[place]
        prompt, reply = split(write_repair(program, problem, place, shown, advice, working))
        assert prompt == FORMAT.render(ask.request).text
        answer = DEDUCTION.read_answer(FORMAT.parse(reply, DEDUCTION.answer_blocks))
        assert DEDUCTION.is_correct(problem, answer, None)


def test_attempts_are_correct_or_wrong_as_asked_for_and_wrong_in_many_ways() -> None:
    rng = stream(1, "tests", "attempts")
    found = set()
    for number in range(480):
        program, right = sample_program(rng, 1 + number % 10), number % 2 == 0
        shown = sample_attempt(program, 0, rng, right, shows=True)
        assert (shown.answer == program.outputs[0]) == right
        own = "true lines" if shown.lines == program.traces[0] else "wrong lines"
        found.add((right, own, gold_verdict(program, 0, shown).partition(" ")[0]))
    assert found == {
        (True, "true lines", "correct"),
        (True, "wrong lines", "correct"),
        (False, "true lines", "wrong"),
        (False, "wrong lines", "wrong"),
        (False, "wrong lines", "wrong,"),
    }


@pytest.mark.parametrize("which", ["value", "test", "answer", "turns", "change"])
def test_a_mistake_is_followed_through_to_the_answer(which: str) -> None:
    rng = stream(2, "tests", "mistakes")
    programs = [sample_program(rng, 4 + number % 4) for number in range(60)]
    found = 0
    for program in programs:
        attempt = mistaken_attempt(program.text, program.inputs[0], lambda: False, rng, which)
        if attempt is None:
            continue
        lines, output = attempt
        true, gold = program.traces[0], program.outputs[0]
        if which == "answer":
            assert tuple(lines) == true and output != gold
        if which == "value":
            assert tuple(lines) != true
            at = next(n for n, line in enumerate(true) if lines[n : n + 1] != [line])
            assert lines[at].split(" = ")[0] == true[at].split(" = ")[0]
        found += tuple(lines) != true or output != gold
    assert found > 5


def test_a_mistaken_step_may_be_worked_out_before() -> None:
    program = "def f(m, n):\n    m = (m + n) % 4\n    return [m, n]\n"
    attempt = mistaken_attempt(program, "7, 16", lambda: True, stream(0, "tests"), "value")
    assert attempt is not None
    lines, output = attempt
    assert lines[:2] == [": (7 + 16) % 4", ": 23 % 4"]
    assert lines[2].startswith("m = ") and lines[2] != "m = 3"
    assert output == f"[{lines[2].removeprefix('m = ')}, 16]"


def test_a_puzzle_is_asked_by_the_kind_and_its_answer_is_graded_correct() -> None:
    documents = write_puzzle_documents(stream(0, "tests", "puzzles"), 120)
    solved = [document for document in documents if document.startswith(">>student logic\n")]
    for document in solved:
        prompt, reply = split(document)
        text = prompt.partition(">>puzzle\n")[2].partition("\n>>")[0]
        puzzle = PUZZLES.read_proposal([("puzzle", text)], [])
        problem = PUZZLES.verified(puzzle, None, RULES).problem("logic")
        assert FORMAT.render(PUZZLES.ask_answer(problem)).text == prompt
        answer = PUZZLES.read_answer(FORMAT.parse(reply, PUZZLES.answer_blocks))
        assert PUZZLES.is_correct(problem, answer, None)
    assert len(set(solved)) > 60


def test_a_puzzle_is_solved_by_a_search_that_ends_with_the_assignment() -> None:
    puzzle = PUZZLES.read_proposal([("puzzle", PUZZLE)], [])
    assert search(puzzle) == [
        "1",
        "1 1: 2",
        "1 2: 1",
        "1 3: 1",
        "2",
        "2 1",
        "2 1 1: 2",
        "2 1 2: 2",
        "2 1 3",
    ]
    documents = write_puzzle_documents(stream(2, "tests", "puzzles"), 200, 1.0)
    reasoned = [split(one)[1] for one in documents if ">>think" in one]
    assert len(reasoned) > 100
    for reply in reasoned:
        (_, answer), last = (
            FORMAT.parse(reply, ("assignment",))[0],
            reply.split("\n>>assignment")[0],
        )
        assert " ".join(map(str, json.loads(answer).values())) == last.splitlines()[-1]


def test_a_proposed_puzzle_is_one_that_the_kind_accepts() -> None:
    documents = write_puzzle_documents(stream(1, "tests", "puzzles"), 120)
    proposed = [document for document in documents if document.startswith(">>teacher logic\n")]
    for document in proposed:
        prompt, _, reply = document.rpartition(">>new\n")
        blocks = FORMAT.parse(reply, PUZZLES.proposal_blocks)
        PUZZLES.verified(PUZZLES.read_proposal(blocks, []), None, RULES)
        assert prompt.count(">>puzzle") == prompt.count(">>assignment") <= 3
    assert len(proposed) > 20 and any(">>assignment" in document for document in proposed)


def test_an_answer_begins_at_the_last_mark_of_its_document() -> None:
    new, answer = 5, 6
    #        prompt, an answer that is shown, the reply; another document; padding
    tokens = [9, 9, answer, 8, answer, 7, 7, END_ID, 9, new, 7, END_ID, PAD_ID, PAD_ID]
    inside = _in_answers(torch.tensor([tokens[1:]]), (new, answer))
    assert inside[0].int().tolist() == [0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0]


def test_shares_leave_room_for_programs() -> None:
    settings = Pretraining(critique_share=0.6, logic_share=0.4)
    with pytest.raises(ConfigError, match="together at most"):
        pretrain(settings, frozenset(), "cpu", 1, lambda tokens, loss: None)
