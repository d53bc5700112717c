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
from redqueen.evaluate.suites import load_suite
from redqueen.report.export.judged import export_judged
from redqueen.tasks.prompts import load_prompt_format
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
    few = [item.fields["verdict"] for item in suite.items(None, 4)]
    assert sorted(few) == ["correct", "correct", "wrong", "wrong"]


def test_a_run_without_pairs_and_a_broken_file_say_so(tmp_path: Path, run: Path) -> None:
    with pytest.raises(ConfigError, match="no pair of a correct and a wrong attempt"):
        export_judged(run, tmp_path / "none", world=7)
    file = export_judged(run, tmp_path / "pairs")
    row = json.loads(file.read_text().splitlines()[0])
    file.write_text(json.dumps({**row, "verdict": "maybe"}) + "\n")
    with pytest.raises(DataError, match=r"line 1: expected the verdict correct or wrong"):
        load_suite(str(file)).items(None, None)


@pytest.mark.slow
def test_a_base_is_measured_as_a_critic_with_an_interval() -> None:
    result = rq.evaluate("pawn", "critique", limit=4, max_tokens=8, device="cpu")
    assert result.n == 4 and result.score == 0.0  # Pawn has never seen a critique
    assert 0 <= result.interval[0] <= result.interval[1] <= 1
