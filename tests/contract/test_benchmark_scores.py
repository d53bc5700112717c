"""`redqueen eval` on benchmarks: scores, intervals, an adapter beside its base, and attempts that
a second call takes up."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from redqueen.benchmarks.humaneval import HumanEval
from redqueen.benchmarks.suite import CORRECT
from redqueen.cli import gold
from redqueen.cli.evaluate import evaluate
from redqueen.engine.torch.population import Population
from redqueen.errors import ConfigError
from redqueen.evaluate.statistics import paired_difference, pass_at_k
from redqueen.evaluate.targets import open_target
from redqueen.models.base import load_base
from redqueen.models.peft_io import save_adapter
from tests.contract.benchmark_items import write_items

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A member as it is born: it says what its base says."""
    folder = tmp_path_factory.mktemp("adapters") / "newborn"
    base = load_base("pawn", device="cpu")
    adapter = Population(base, 1, 4, 8.0).read(0)
    save_adapter(adapter, folder, base="pawn", fingerprint=base.fingerprint)
    return folder


def run(target: Path | str, suites: list[str], data: Path, out: Path, **options: Any) -> None:
    evaluate(
        str(target),
        suites,
        data=data,
        device="cpu",
        limit=24,
        max_tokens=6,
        as_json=True,
        out=out,
        **options,
    )


def test_a_base_is_scored_with_intervals_and_the_version_of_its_prompts(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("pawn", ["cruxeval-o", "livecodebench", "heldout-quick"], data, tmp_path / "out.json")
    found = json.loads(capsys.readouterr().out)["suites"]
    assert json.loads((tmp_path / "out.json").read_text())["suites"] == found
    said = {
        name: found["cruxeval-o"][name]
        for name in ("n", "prompt_version", "style", "samples", "temperature", "max_tokens")
    }
    assert said == {
        "n": 4,
        "prompt_version": "cruxeval-o-3",
        "style": "base",
        "samples": 1,
        "temperature": 0.0,
        "max_tokens": 6,
    }
    assert found["cruxeval-o"]["interval"][1] > 0.4  # four items say little
    assert "public tests only" in found["livecodebench"]["note"]
    assert found["heldout-quick"]["tiers"]["code_o"]["1"]["n"]


def test_a_killed_evaluation_goes_on_where_it_was(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    run("pawn", ["gsm8k", "cruxeval-o"], data, out)
    whole, journal = json.loads(capsys.readouterr().out), tmp_path / "out.attempts.jsonl"
    lines = journal.read_text().splitlines()
    assert len(lines) == 6
    journal.write_text("\n".join(lines[:3]) + '\n{"config": {"sui')
    run("pawn", ["gsm8k", "cruxeval-o"], data, out)
    assert json.loads(capsys.readouterr().out) == whole
    assert (
        len(journal.read_text().splitlines()) == 3 + 1 + 3
    )  # what was there, the torn line, what was missing
    run("pawn", ["gsm8k", "cruxeval-o"], data, out, samples=2)  # another config starts anew
    assert json.loads(capsys.readouterr().out)["suites"]["gsm8k"]["pass_at"].keys() == {"1", "2"}
    assert len(journal.read_text().splitlines()) == 7 + 12


def test_an_adapter_is_compared_with_its_base_item_by_item(
    data: Path, adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(adapter, ["cruxeval-o"], data, tmp_path / "out.json")
    found = json.loads(capsys.readouterr().out)
    row = found["suites"]["cruxeval-o"]
    assert found["target"] == "newborn"
    assert row["against_base"] == {
        "difference": 0.0,
        "interval": [0.0, 0.0],
        "better": 0,
        "worse": 0,
        "p": 1.0,
    }
    assert row["base"]["accuracy"] == row["accuracy"]
    with pytest.raises(ConfigError, match="takes a base"):
        evaluate(str(adapter), ["proposals"], device="cpu")


def test_an_adapter_is_asked_what_pawn_is_asked(
    data: Path, adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(adapter, ["heldout-quick"], data, tmp_path / "out.json")
    row = json.loads(capsys.readouterr().out)["suites"]["heldout-quick"]
    assert row["n"] == 24 and row["against_base"]["better"] == row["against_base"]["worse"] == 0
    assert row["prompt_version"].startswith("compact-")


def test_an_adapter_whose_base_is_gone_says_how_to_name_it(adapter: Path, tmp_path: Path) -> None:
    config = json.loads((adapter / "adapter_config.json").read_text())
    lost = Path(shutil.copytree(adapter, tmp_path / "lost"))
    (lost / "adapter_config.json").write_text(
        json.dumps({**config, "base_model_name_or_path": "./nowhere"})
    )
    with pytest.raises(ConfigError, match="--base"):
        open_target(lost, device="cpu")


def test_a_table_is_printed_with_a_row_for_each_suite(
    data: Path, adapter: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    evaluate(str(adapter), ["gsm8k", "aime24"], data=data, device="cpu", max_tokens=4, samples=2)
    out = capsys.readouterr().out
    assert "% pass@2" in out
    assert "difference (95 %)" in out
    rows = out.rpartition("─")[2].splitlines()
    assert [row.split()[0] for row in rows if row.strip()] == ["gsm8k", "aime24"]


def test_gold_is_flat_json_and_leaves_out_what_has_no_solutions(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gold.run(
        "gold",
        ["humaneval", "livecodebench", "aime25"],
        data,
        None,
        unsafe=False,
        as_json=True,
        out=None,
    )
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "humaneval": {"score": 1.0, "n": 3, "failed": []},
        "aime25": {"score": 1.0, "n": 2, "failed": []},
    }
    assert "livecodebench: left out: the benchmark ships no solutions" in err


def test_forged_counts_the_cheats_that_are_right(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (["cruxeval-i", "humaneval"], data, 1)
    assert gold.run("forged", *options, unsafe=False, as_json=True, out=None)
    suites = json.loads(capsys.readouterr().out)["suites"]
    assert all(0 < suite.pop("slowest_s") < 2 for suite in suites.values())
    assert suites == {"cruxeval-i": {"right": 0, "n": 25}, "humaneval": {"right": 0, "n": 38}}
    monkeypatch.setattr(HumanEval, "grade", lambda *arguments: [CORRECT] * len(arguments[1]))
    assert not gold.run("forged", *options, unsafe=False, as_json=False, out=None)
    assert "cheats accepted" in capsys.readouterr().out


def test_pass_at_k_is_the_share_of_choices_with_a_correct_one() -> None:
    assert pass_at_k(4, 0, 2) == 0.0
    assert pass_at_k(4, 1, 2) == pytest.approx(1 / 2)  # 3 of the 6 pairs hold it
    assert pass_at_k(4, 3, 2) == 1.0
    assert pass_at_k(10, 4, 1) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="pass@5"):
        pass_at_k(4, 1, 5)


def test_a_paired_difference_counts_only_where_the_two_differ() -> None:
    difference = paired_difference([1, 1, 1, 0, 1, 1], [1, 0, 0, 0, 0, 0])
    assert difference.mean == pytest.approx(4 / 6)
    assert (difference.better, difference.worse) == (4, 0)
    assert difference.low < 4 / 6 < difference.high
    assert difference.p == pytest.approx(2 / 16)
    assert paired_difference([1, 0], [1, 0]).p == 1.0
