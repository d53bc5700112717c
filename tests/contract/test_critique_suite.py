"""Critics are measured on fixed pairs of a problem and an attempt: held-out ones, or those of a
run."""

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

import redqueen as rq
from redqueen.benchmarks.suite import CHAT, Graders, PromptStyle
from redqueen.cli.app import app
from redqueen.errors import ConfigError, DataError
from redqueen.evaluate.critique import CritiqueFile
from redqueen.evaluate.heldout_critique import freeze_attempts
from redqueen.evaluate.replies import GradedReply
from redqueen.evaluate.suites import load_suite
from redqueen.pawn.heldout import load_suite as pawn_suite
from redqueen.pawn.programs import is_reserved, program_key
from redqueen.report.export.judged import export_judged
from redqueen.sandbox import Outcome
from redqueen.sandbox.literals import canonical, parse_arguments
from redqueen.sandbox.protocol import Result
from redqueen.tasks.code.trace import first_departure, read_trace
from redqueen.tasks.code.tracer import f as trace_program
from redqueen.tasks.prompts import load_prompt_format
from redqueen.tasks.prompts.compact import write_blocks
from tests.science.test_games import solver
from tests.scripted import TrustingSandbox, play, scripted_run, teacher

COMPACT = PromptStyle(False, load_prompt_format("compact"))
NOBODY = Graders(None, None)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    settings = ["steps=2", "evolve.exam.problems=0"]
    with scripted_run(
        tmp_path / "run", TrustingSandbox(), [teacher(0.0)], [solver], settings
    ) as run:
        play(run)
    return tmp_path / "run"


def test_half_of_the_held_out_attempts_are_correct_however_many_are_taken() -> None:
    suite = load_suite("critique")
    for limit in (None, 100, 10):
        items = suite.items(None, limit)
        counts = Counter(item.fields["verdict"] for item in items)
        assert counts["correct"] == counts["wrong"] == len(items) // 2
    for item in items:
        is_gold = item.fields["answer"] == item.fields["problem"].gold[0]
        assert is_gold == (item.fields["verdict"] == "correct")


def test_verdicts_are_compared_with_the_truth_and_always_the_same_scores_half() -> None:
    suite = load_suite("critique")
    items = suite.items(None, 20)
    for said, share in (("correct", 0.5), ("Wrong, line 2.", 0.5), ("both", 0.0), ("", 0.0)):
        for style, reply in ((CHAT, "<answer>{}</answer>"), (COMPACT, ">>verdict\n{}\n>>end")):
            replies = [reply.format(said)] * len(items)
            verdicts = suite.grade(items, replies, style, NOBODY)
            assert sum(verdict.correct for verdict in verdicts) == share * len(items)
    honest = [f"<answer>{item.fields['verdict']}</answer>" for item in items]
    assert all(verdict.correct for verdict in suite.grade(items, honest, CHAT, NOBODY))


def test_attempts_of_a_run_are_a_suite(run: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["export", str(run), "--attempts", "--out", f"{tmp_path}/pairs"]
    )
    assert result.exit_code == 0, result.output
    suite = load_suite(f"{tmp_path}/pairs/attempts.jsonl")
    assert isinstance(suite, CritiqueFile) and suite.name == "attempts"
    items = suite.items(None, None)
    assert Counter(item.fields["verdict"] for item in items) == {
        "correct": len(items) // 2,
        "wrong": len(items) // 2,
    }
    for item in items:
        problem = item.fields["problem"]
        assert (item.fields["answer"] == problem.gold[0]) == (item.fields["verdict"] == "correct")
        assert "1: I add them up.\n2: It is " in suite.prompt(item, CHAT).text
    for limit in range(1, len(items) + 3):
        few = suite.items(None, limit)
        verdicts = [item.fields["verdict"] for item in few]
        assert len({item.id for item in few}) == len(few) == min(limit, len(items))
        assert 0 <= verdicts.count("correct") - verdicts.count("wrong") <= 1


def test_a_run_without_pairs_and_a_broken_file_say_so(tmp_path: Path, run: Path) -> None:
    with pytest.raises(ConfigError, match="no pair of a correct and a wrong attempt"):
        export_judged(run, tmp_path / "none", world=7)
    file = export_judged(run, tmp_path / "pairs")
    row = json.loads(file.read_text().splitlines()[0])
    file.write_text(json.dumps({**row, "verdict": "maybe"}) + "\n")
    with pytest.raises(DataError, match=r"line 1: expected the verdict correct or wrong"):
        load_suite(str(file)).items(None, None)


def test_attempts_of_pawn_come_in_pairs_about_one_problem_however_many_are_taken() -> None:
    items = load_suite("heldout-critique").items(None, None)
    assert len(items) == 866 and {item.tier for item in items} == {4, 5, 6, 7}
    for correct, wrong in zip(items[::2], items[1::2], strict=True):
        assert (correct.fields["verdict"], wrong.fields["verdict"]) == ("correct", "wrong")
        problem = correct.fields["problem"]
        assert problem is wrong.fields["problem"] and is_reserved(
            program_key(problem.payload.program)
        )
        assert correct.fields["answer"] == problem.gold[0] != wrong.fields["answer"]
        assert correct.fields["line"] is None
    assert load_suite("heldout-critique").items(None, 8) == items[:8]
    assert {item.tier for item in items[:8]} == {4, 5, 6, 7}


def test_the_first_wrong_line_is_where_the_attempt_departs_from_execution() -> None:
    items = load_suite("heldout-critique-lines").items(None, None)
    assert len(items) == 376 and all(item.fields["verdict"] == "wrong" for item in items)
    for item in items[:100]:
        code, line = item.fields["problem"].payload, item.fields["line"]
        found = trace_program(code.program, parse_arguments(code.inputs[0]))
        trace = read_trace(
            Outcome("value", (Result("value", canonical(found)),)), item.fields["problem"].gold[0]
        )
        assert trace is not None
        assert first_departure(item.fields["reasoning"], trace) == line - 1


def test_who_names_another_line_or_none_is_not_correct_about_the_line() -> None:
    suite = load_suite("heldout-critique-lines")
    items = suite.items(None, 20)
    lines = [item.fields["line"] for item in items]
    for texts, share in (
        ([f"wrong, line {line}" for line in lines], 1.0),
        ([f"wrong, line {line + 1}" for line in lines], 0.0),
        (["wrong"] * 20, 0.0),
        (["correct"] * 20, 0.0),
    ):
        replies = [f">>verdict\n{text}\n>>end" for text in texts]
        verdicts = suite.grade(items, replies, COMPACT, NOBODY)
        assert sum(verdict.correct for verdict in verdicts) == 20 * share


def test_critics_are_asked_about_pawns_attempts_as_in_the_game() -> None:
    suite = load_suite("heldout-critique")
    item = suite.items(None, 1)[0]
    text = suite.prompt(item, COMPACT).text
    assert text.startswith(">>critic code_o\n>>program\n") and text.endswith(">>answer\n")
    assert f">>answer\n{item.fields['answer']}\n>>answer\n" in text
    assert ">>reasoning\n1: " in text


def test_attempts_are_frozen_where_a_problem_has_a_correct_and_a_wrong_one() -> None:
    golds = [item.problem.gold[0] for item in pawn_suite("heldout-deduction")[:3]]
    rows = [(0, golds[0]), (0, "'no'"), (1, golds[1]), (2, "'no'"), (2, golds[2])]
    replies = [
        GradedReply(
            item=f"{item:04d}",
            model="base",
            sample=sample,
            reply=write_blocks([("think", "n = 'no'"), ("output", answer)]),
            correct=answer != "'no'",
            reason="wrong" if answer == "'no'" else "",
            truncated=False,
            vote_key=answer,
            reasoned=True,
        )
        for sample, (item, answer) in enumerate(rows)
    ]
    lines = freeze_attempts(replies, TrustingSandbox())
    assert [(line["item"], line["verdict"], line["answer"]) for line in lines] == [
        (0, "correct", golds[0]), (0, "wrong", "'no'"), (2, "correct", golds[2]), (2, "wrong", "'no'"),
    ]  # fmt: skip
    assert [line["line"] for line in lines] == [None, 1, None, 1]


@pytest.mark.slow
def test_a_base_is_measured_as_a_critic_with_an_interval() -> None:
    result = rq.evaluate("pawn", "critique", limit=4, max_tokens=8, device="cpu")
    assert result.n == 4 and result.score == 0.0  # Pawn has never seen a critique
    assert 0 <= result.interval[0] <= result.interval[1] <= 1
