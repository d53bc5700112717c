"""Pawn on the command line: programs to look at, a score to compare, mistakes that are answered."""

import json
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.pawn import pretrain
from redqueen.pawn.heldout import FOLDER, shipped_score
from redqueen.pawn.pretrain import Pretraining
from redqueen.pawn.programs import INPUTS
from redqueen.tasks.code import KINDS
from tests.e2e.processes import start
from tests.e2e.test_cli import redqueen

pytestmark = pytest.mark.slow


def test_sample_prints_the_same_bytes_for_the_same_seed() -> None:
    first, second = (
        redqueen("pawn", "sample", "--tier", "5", "--seed", "1").stdout for _ in range(2)
    )
    assert first == second
    assert first.count("def f(") == first.count("# ") == 3
    assert "f(" in first.partition("return")[2]
    assert "->" in first
    assert redqueen("pawn", "sample", "--tier", "5", "--seed", "2").stdout != first


def test_sample_gives_json_a_line() -> None:
    rows = [
        json.loads(line)
        for line in redqueen(
            "pawn", "sample", "--tier", "2", "--count", "4", "--json"
        ).stdout.splitlines()
    ]
    assert len(rows) == 4
    assert set(rows[0]) == {"tier", "program", "inputs", "outputs", "traces", "hint"}
    assert len(rows[0]["inputs"]) == len(rows[0]["outputs"]) == INPUTS


def test_eval_gives_the_score_that_ships_with_the_suite(tmp_path: Path) -> None:
    words = ["eval", "pawn", "--suite", "heldout-quick", "--device", "cpu", "--json"]
    done = start(tmp_path / "log", *words).wait()
    scores = json.loads(done.out)["suites"]["heldout-quick"]["tiers"]
    shipped = json.loads((FOLDER / "heldout-quick.base.json").read_text())
    assert sorted(scores) == sorted(KINDS)
    assert set(scores["code_o"]["1"]) >= {"accuracy", "n"}
    shapes = [
        {(kind, tier): cell["n"] for kind, row in score.items() for tier, cell in row.items()}
        for score in (scores, shipped)
    ]
    assert shapes[0] == shapes[1]
    assert sum(shapes[0].values()) == 200
    correct = sum(cell["accuracy"] * cell["n"] for row in scores.values() for cell in row.values())
    # two of two hundred: another CPU rounds differently
    assert correct / 200 == pytest.approx(shipped_score(), abs=0.011)
    assert f"Pawn as shipped has {100 * shipped_score():.1f} %" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pawn", "--suite", "heldot"], "unknown suite 'heldot'. Did you mean 'heldout'?"),
        (
            ["pawn", "--prompt-format", "compcat"],
            "unknown prompt format 'compcat'. Did you mean 'compact'?",
        ),
        (["pwan"], "Did you mean 'pawn'?"),
    ],
)
def test_a_mistake_is_answered_and_costs_no_traceback(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = start(tmp_path / "log", "eval", *arguments).wait(2)  # which looks for tracebacks
    assert message in done.err


def test_a_trained_model_is_not_replaced_by_mistake(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = redqueen("pawn", "train", "--out", tmp_path)
    assert (done.returncode, "--force" in done.stderr) == (2, True)


def test_a_small_model_is_trained_by_the_command_and_loads_with_plain_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # with a tokenizer of two shards: 24 take most of the time
    monkeypatch.setattr(pretrain, "Pretraining", partial(Pretraining, tokenizer_shards=2))
    small = [
        "--hidden",
        "32",
        "--layers",
        "1",
        "--tokens",
        "100000",
        "--workers",
        "2",
        "--device",
        "cpu",
    ]
    done = CliRunner().invoke(app, ["pawn", "train", "--out", str(tmp_path), *small])
    assert done.exit_code == 0, done.output
    assert "100 % of 0M tokens" in done.stderr
    assert (
        f"sha256 of its weights: {sha256((tmp_path / 'model.safetensors').read_bytes()).hexdigest()}"
        in done.stderr
    )
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(tmp_path),
        AutoTokenizer.from_pretrained(tmp_path),
    )
    assert model.config.hidden_size == 32
    assert tokenizer.decode(tokenizer(">>student code_o\n")["input_ids"]) == ">>student code_o\n"


def test_suites_are_built_with_checksums(tmp_path: Path) -> None:
    done = redqueen("pawn", "suites", "--out", tmp_path, "--each", "1")
    assert done.returncode == 0, done.stderr
    assert set(json.loads((tmp_path / "checksums.json").read_text())) == {
        "heldout",
        "heldout-quick",
        "heldout-deduction",
        "heldout-logic",
    }
