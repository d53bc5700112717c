"""What is exported is what the run had: adapters that PEFT loads, weights that need no adapter,
problems that can be read back."""

import contextlib
import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.config.toml import load_config, to_toml
from redqueen.engine.torch.engine import TorchEngine
from redqueen.errors import ConfigError
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.members import newest_checkpoint
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import Ledger, open_to_read
from redqueen.models.adapter import LoraPair
from redqueen.models.base import PAWN, load_base, locate
from redqueen.models.bundled import BUNDLED, place_of
from redqueen.report.export.members import export_soup
from redqueen.report.export.problems import _write_parquet, difficulty_rating, list_problems
from redqueen.report.run_view import open_views
from redqueen.stages.evolve.merge import merge_adapters
from redqueen.tasks.sources import read_payloads
from tests.report.synthetic import Synthetic

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
RANK = 4


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    config = load_config(None, [f"lora.rank={RANK}", "lora.alpha=8"])
    engine = TorchEngine(load_base("pawn", device="cpu"), 4, config.engine, config.lora)
    assert engine.population is not None
    generator = torch.Generator().manual_seed(0)
    for slot in range(4):
        projections = {
            name: LoraPair(a, torch.randn(b.shape, generator=generator) * 0.02)
            for name, (a, b) in engine.read(slot).projections.items()
        }
        adapter = replace(engine.read(slot), projections=projections)
        engine.write(slot, adapter, reset_optimizer=True)
    return engine


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, engine: TorchEngine) -> Path:
    """A run with two teachers and two students, and a checkpoint that has their weights."""
    folder = tmp_path_factory.mktemp("runs") / "quick"
    Synthetic(steps=6, members=2, evolve_every=100).write(folder)
    config = load_config(
        None,
        [
            f"lora.rank={RANK}",
            "lora.alpha=8",
            "population.teachers=2",
            "population.students=2",
            "device=cpu",
        ],
    )
    with Ledger.open(folder) as ledger:
        about = {"config": to_toml(config), "base_weights": engine.base.fingerprint}
        ledger.add("run", [{"name": name, "value": value} for name, value in about.items()])
    members = [
        {
            "id": name,
            "role": role,
            "slot": slot,
            "version": 6,
            "rating": {"mu": 25.0, "sigma": 2.0},
            "born": 0,
            "learning_rate": None,
        }
        for slot, (name, role) in enumerate(
            [("T0", "teacher"), ("T1", "teacher"), ("S0", "student"), ("S1", "student")]
        )
    ]
    names = {slot: f"0/{member['id']}" for slot, member in enumerate(members)}
    Checkpoints(folder).save(
        6, lambda place: engine.save(place, names), {"worlds": [{"members": members}]}
    )
    return folder


def export(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["export", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def delta(engine: TorchEngine, slot: int, name: str) -> torch.Tensor:
    assert engine.population is not None
    first, second = engine.read(slot).projections[name]
    return engine.population.scale * (first @ second).T


def test_a_member_goes_through_peft_and_comes_back_as_the_merged_export(
    run: Path, engine: TorchEngine, tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    export(run, "--member", "S1", "--out", tmp_path / "adapter")
    export(run, "--member", "S1", "--merged", "--out", tmp_path / "merged")
    assert "S1" in (tmp_path / "adapter" / "README.md").read_text()
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tmp_path / "adapter" / "base")
    plain = AutoModelForCausalLM.from_pretrained(PAWN, dtype=torch.float32)
    before = {name: weight.clone() for name, weight in plain.state_dict().items()}
    through_peft = (
        PeftModel.from_pretrained(plain, str(tmp_path / "adapter")).merge_and_unload().state_dict()
    )
    merged = AutoModelForCausalLM.from_pretrained(
        tmp_path / "merged", dtype=torch.float32
    ).state_dict()
    assert set(merged) == set(through_peft)
    assert all(torch.allclose(merged[name], through_peft[name], atol=1e-6) for name in merged)
    assert engine.population is not None
    for name in engine.population.names:
        assert torch.allclose(
            merged[f"{name}.weight"] - before[f"{name}.weight"], delta(engine, 3, name), atol=1e-6
        ), name


def test_a_member_is_written_as_peft_from_python(run: Path, tmp_path: Path) -> None:
    export(run, "--member", "S1", "--out", tmp_path / "exported")
    with open_run(run) as reader:
        reader.member("S1").to_peft(tmp_path / "written")
    written, exported = (
        load_file(tmp_path / name / "adapter_model.safetensors") for name in ("written", "exported")
    )
    assert written.keys() == exported.keys()
    assert all(torch.equal(written[name], exported[name]) for name in written)
    config, other = (
        json.loads((tmp_path / name / "adapter_config.json").read_text())
        for name in ("written", "exported")
    )
    assert config.pop("base_model_name_or_path") == str(PAWN.resolve())
    assert other.pop("base_model_name_or_path") == str(tmp_path / "exported" / "base")
    assert config == other


@pytest.mark.parametrize("how", ["python", "member", "soup"])
def test_peft_finds_the_base_of_an_adapter_by_itself(run: Path, tmp_path: Path, how: str) -> None:
    from peft import AutoPeftModelForCausalLM

    folder = tmp_path / how
    if how == "python":
        with open_run(run) as reader:
            reader.member("S1").to_peft(folder)
    else:
        export(run, *{"member": ("--member", "S1"), "soup": ("--soup",)}[how], "--out", folder)
        assert "base_model: pawn\n" in (folder / "README.md").read_text()
    model = AutoPeftModelForCausalLM.from_pretrained(folder)
    assert model.active_adapters == ["default"]
    assert model.get_base_model().config.vocab_size == 768


def test_a_base_is_recorded_where_other_tools_find_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.json").write_text("{}")
    assert place_of("pawn-games") == str(BUNDLED["pawn-games"].resolve())
    assert place_of(str(own / ".." / "own")) == str(own.resolve())
    assert place_of("Qwen/Qwen2.5-0.5B") == "Qwen/Qwen2.5-0.5B"
    assert locate(str(BUNDLED["pawn-games"])).name == "pawn-games"


def test_an_adapter_for_other_machines_names_a_base_that_they_find(
    run: Path, tmp_path: Path
) -> None:
    """What is played on a folder is recorded by the folder's last name, which nobody finds."""

    def played_on(base: str, recorded: str) -> Path:
        other = Path(shutil.copytree(run, tmp_path / recorded / "run"))
        with contextlib.closing(sqlite3.connect(other / "run.sqlite")) as ledger, ledger:
            patch = json.dumps({"base": base})
            ledger.execute("UPDATE worlds SET config = json_patch(config, ?)", (patch,))
            ledger.execute("UPDATE run SET value = ? WHERE name = 'base'", (recorded,))
        return other

    def named(folder: Path) -> str:
        config = json.loads((folder / "adapter_config.json").read_text())
        return str(config["base_model_name_or_path"])

    for other in (run, played_on("models/qwen", "qwen"), played_on(str(tmp_path), tmp_path.name)):
        with pytest.raises(ConfigError, match="--base owner/name, or push full weights"):
            export_soup(other, tmp_path / "pushed", portable=True)
        assert not (tmp_path / "pushed").exists()
    on_hub = played_on("owner/model", "owner/model")
    assert named(export_soup(on_hub, tmp_path / "hub", portable=True)) == "owner/model"
    folder = export_soup(run, tmp_path / "given", portable=True, base="me/pawn", license_id="mit")
    assert named(folder) == "me/pawn" and not (folder / "base").exists()
    assert (folder / "README.md").read_text().startswith("---\nlicense: mit\nbase_model: me/pawn\n")
    export(run, "--member", "S1", "--base", "me/pawn", "--out", tmp_path / "local")
    assert named(tmp_path / "local") == "me/pawn"
    assert "license: apache-2.0\n" in (tmp_path / "local" / "README.md").read_text()
    own = export_soup(run, tmp_path / "own", portable=True, base="pawn")
    assert named(own) == "pawn" and (own / "base" / "config.json").exists()


def test_the_soup_is_the_nearest_adapter_to_the_mean(
    run: Path, engine: TorchEngine, tmp_path: Path
) -> None:
    export(run, "--soup", "--out", tmp_path / "soup")
    saved = load_file(tmp_path / "soup" / "adapter_model.safetensors")
    assert engine.population is not None
    for name in engine.population.names[:6]:
        a, b = (saved[f"base_model.model.{name}.lora_{which}.weight"] for which in "AB")
        u, s, v = torch.linalg.svd((delta(engine, 2, name) + delta(engine, 3, name)).double() / 2)
        best = (u[:, :RANK] * s[:RANK]) @ v[:RANK]
        assert a.shape[0] == RANK
        assert torch.allclose(engine.population.scale * (b @ a).double(), best, atol=1e-6), name


def test_the_soup_of_a_run_is_by_its_own_merge(
    run: Path, engine: TorchEngine, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(run, tmp_path / "run"))
    with contextlib.closing(sqlite3.connect(other / "run.sqlite")) as ledger, ledger:
        patch = '{"evolve": {"merge": {"type": "ties"}}}'
        ledger.execute("UPDATE worlds SET config = json_patch(config, ?)", (patch,))
    export(other, "--soup", "--out", tmp_path / "soup")
    export_soup(other, tmp_path / "mean", merge="mean")
    name, (a, b) = next(
        iter(merge_adapters([engine.read(2), engine.read(3)], "ties").projections.items())
    )
    for how, is_same in (("soup", True), ("mean", False)):
        saved = load_file(tmp_path / how / "adapter_model.safetensors")
        own_a, own_b = (saved[f"base_model.model.{name}.lora_{which}.weight"] for which in "AB")
        assert torch.allclose((own_b @ own_a).T, a @ b, atol=1e-6) == is_same
    assert "The merge `ties` of the students" in (tmp_path / "soup" / "README.md").read_text()


def test_the_soup_of_a_single_student_is_that_student(
    run: Path, engine: TorchEngine, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(run, tmp_path / "run"))
    (world,) = newest_checkpoint(other).state["worlds"]
    members = [member for member in world["members"] if member["id"] != "S1"]
    names = {member["slot"]: f"0/{member['id']}" for member in members}
    state = {"worlds": [{"members": members}]}
    Checkpoints(other).save(6, lambda place: engine.save(place, names), state)
    export_soup(other, tmp_path / "soup", merge="dare")
    saved = load_file(tmp_path / "soup" / "adapter_model.safetensors")
    name, (a, b) = next(iter(engine.read(2).projections.items()))
    own_a, own_b = (saved[f"base_model.model.{name}.lora_{which}.weight"] for which in "AB")
    assert torch.allclose((own_b @ own_a).T, a @ b, atol=1e-6)
    assert "the only one" in (tmp_path / "soup" / "README.md").read_text()


def test_a_merge_that_a_run_brings_along_is_named_before_it_is_imported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "their_merge.py").write_text("def first(updates):\n    return updates[0]\n")
    monkeypatch.syspath_prepend(tmp_path)
    other = Path(shutil.copytree(run, tmp_path / "run"))
    with contextlib.closing(sqlite3.connect(other / "run.sqlite")) as ledger, ledger:
        patch = '{"evolve": {"merge": {"type": "their_merge:first"}}}'
        ledger.execute("UPDATE worlds SET config = json_patch(config, ?)", (patch,))
    with contextlib.suppress(Exception):  # it need not be a good one
        export_soup(other, tmp_path / "soup")
    assert "imported now: their_merge:first" in caplog.text


def test_the_card_of_the_soup_has_what_the_run_measured(run: Path, tmp_path: Path) -> None:
    measured = Path(shutil.copytree(run, tmp_path / "run"))
    row = {"world": 0, "step": newest_checkpoint(run).step, "suite": "own", "kind": "k", "tier": 0}
    with Ledger.open(measured) as ledger:
        ledger.add(
            "evals",
            [
                {**row, "subject": subject, "item": str(item), "sample": 0, "correct": correct}
                for subject, correct in (("soup", 1), ("base", 0))
                for item in range(8)
            ],
        )
    export(run, "--soup", "--out", tmp_path / "unmeasured")
    export(measured, "--soup", "--out", tmp_path / "soup")
    assert "not measured" in (tmp_path / "unmeasured" / "README.md").read_text()
    assert "| own | 100.0 %" in (tmp_path / "soup" / "README.md").read_text()


def test_the_soup_of_one_member_is_that_member(engine: TorchEngine) -> None:
    (mixed, single) = merge_adapters([engine.read(1)] * 3), engine.read(1)
    for name, (a, b) in mixed.projections.items():
        alone = single.projections[name]
        assert torch.allclose(a @ b, alone.a @ alone.b, atol=1e-6)


def test_an_unknown_member_and_a_full_folder_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Choose from: S0, S1, T0, T1"):
        export(run, "--member", "S7", "--out", tmp_path / "none")
    (tmp_path / "here.txt").touch()
    with pytest.raises(ConfigError, match="not empty"):
        export(run, "--problems", "--out", tmp_path)
    with pytest.raises(ConfigError, match="say what to export"):
        export(run, "--out", tmp_path / "none")


def test_exported_problems_can_be_read_back(run: Path, tmp_path: Path) -> None:
    assert "left out" not in export(run, "--problems", "--all", "--out", tmp_path / "data")
    rows = [
        json.loads(line) for line in (tmp_path / "data" / "problems.jsonl").read_text().splitlines()
    ]
    with contextlib.closing(open_to_read(run)) as connection:
        stored = connection.execute(
            "SELECT count(*), sum(verdict = 'correct') FROM attempts"
        ).fetchone()
        assert len(rows) == connection.execute("SELECT count(*) FROM problems").fetchone()[0]
    assert [sum(row[name] for row in rows) for name in ("attempts", "correct")] == list(stored)
    assert len(read_payloads(tmp_path / "data" / "problems.jsonl")) == len(rows)
    card = (tmp_path / "data" / "README.md").read_text()
    assert f"{len(rows)} problems" in card and "left out" not in card
    said = export(run, "--problems", "--out", tmp_path / "some")
    some = read_payloads(tmp_path / "some" / "problems.jsonl")
    assert len(some) == sum(0 < row["solve_rate"] < 1 for row in rows)
    left_out = len(rows) - len(some)
    assert f"{left_out} of {len(rows)} problems are left out" in said and "`--all` keeps" in said
    assert "are left out." in (tmp_path / "some" / "README.md").read_text()


def test_children_have_their_ancestors_in_the_data(tmp_path: Path) -> None:
    Synthetic(steps=12, evolve_every=3).write(tmp_path / "run")
    with open_views([tmp_path / "run"]) as (view,):
        rows = list(list_problems(view))
    born_late = [row for row in rows if "." in row["teacher"]]
    assert born_late and all(row["teacher_ancestors"] for row in born_late)


def test_a_problem_that_is_solved_half_of_the_time_is_as_hard_as_the_student_is_good() -> None:
    assert difficulty_rating(30.0, 8, 4, 25 / 6) == 30
    harder, easier = difficulty_rating(30.0, 8, 1, 25 / 6), difficulty_rating(30.0, 8, 7, 25 / 6)
    assert harder is not None and easier is not None and easier < 30 < harder
    assert difficulty_rating(None, 8, 4, 25 / 6) is None


def test_parquet_has_the_same_rows(run: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
    export(run, "--problems", "--all", "--format", "parquet", "--out", tmp_path / "data")
    export(run, "--problems", "--all", "--out", tmp_path / "lines")
    rows = parquet.read_table(tmp_path / "data" / "problems.parquet").to_pylist()
    lines = (tmp_path / "lines" / "problems.jsonl").read_text().splitlines()
    assert rows == [json.loads(line) for line in lines]


def test_parquet_has_the_columns_of_every_kind(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
    rows: list[dict[str, Any]] = [
        {"kind": "a", "inputs": ["1"], "size": 3, "shown": []},
        {"kind": "b", "clues": {"x": 1}, "size": "large", "shown": []},
    ]
    _write_parquet(rows, tmp_path / "rows.parquet")
    first, second = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert first == {"kind": "a", "inputs": ["1"], "size": "3", "shown": [], "clues": None}
    assert second["clues"] == {"x": 1} and (second["inputs"], second["size"]) == (None, '"large"')
