"""A run of redqueen 0.1.0 (schema 1) is read as if it were made today, and never changed."""

import contextlib
import hashlib
import json
import shutil
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.config.renamed import rename_settings
from redqueen.config.schema import Config
from redqueen.config.toml import config_from_toml
from redqueen.errors import ConfigError
from redqueen.ledger.runs import list_runs
from redqueen.ledger.store import FILE, Ledger, about_of, digest, last_step, open_to_read
from redqueen.ledger.tables import table_shapes

OLD = Path(__file__).parents[1] / "data" / "schema-1.sqlite"
"""A study of two arms: two teachers and two students with a hall of fame, and fixed problems."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / "old").mkdir()
    shutil.copy(OLD, tmp_path / "old" / FILE)
    return tmp_path / "old"


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_table_has_the_columns_of_the_current_schema(old: Path) -> None:
    with contextlib.closing(open_to_read(old)) as connection:
        assert last_step(connection) == 3
        for table in table_shapes().values():
            rows = connection.execute(f"SELECT * FROM {table.name}").fetchall()
            if table.name in (
                "exams",
                "fitness",
                "people",
                "turns",
                "role_ratings",
                "placements",
            ):  # there were none
                assert not rows
                continue
            assert rows and tuple(rows[0].keys()) == table.columns, table.name


def test_problems_verdicts_and_metrics_have_their_new_names(old: Path) -> None:
    with contextlib.closing(open_to_read(old)) as connection:
        problem = connection.execute(
            "SELECT * FROM problems WHERE world = 0 ORDER BY step, problem"
        ).fetchone()
        payload = json.loads(problem["payload"])
        assert payload["program"].startswith("def f(") and len(problem["structure"]) == 32
        assert len(payload["inputs"]) == len(json.loads(problem["gold"]))
        assert json.loads(problem["features"]).keys() == {
            "ast_depth", "cyclomatic", "loc", "variables", "steps_executed",
        }  # fmt: skip
        assert problem["author"].startswith("T")
        derived = connection.execute("SELECT DISTINCT kind, derived FROM problems")
        assert {tuple(row) for row in derived} == {("code_o", 0), ("code_f", 1)}
        authors = connection.execute("SELECT DISTINCT author FROM problems WHERE world = 1")
        assert [tuple(row) for row in authors] == [(None,)]
        verdicts = connection.execute("SELECT DISTINCT verdict FROM attempts").fetchall()
        assert {row[0] for row in verdicts} >= {"correct", "wrong"} and len(verdicts) <= 3
        names = {row[0] for row in connection.execute("SELECT DISTINCT name FROM metrics")}
        assert names >= {
            "propose/nll", "solve/nll", "solve/zero_pass_frac", "solve/all_pass_frac",
            "solve/reasoning_frac/code_o", "update/samples_frac",
        }  # fmt: skip
        assert not [name for name in names if "entropy" in name or "thought" in name]


def test_the_settings_of_an_old_run_are_valid_today(old: Path) -> None:
    with contextlib.closing(open_to_read(old)) as connection:
        config = config_from_toml(about_of(connection)["config"])
        worlds = connection.execute("SELECT arm, config FROM worlds ORDER BY world").fetchall()
    assert config.lora.rank == 2 and config.engine.max_num_seqs == 256
    assert [row["arm"] for row in worlds] == ["hall", "fixed"]
    assert Config.model_validate_json(worlds[1]["config"]).is_fixed


def test_an_old_run_is_listed_reported_compared_exported_and_left_as_it_was(
    old: Path, tmp_path: Path
) -> None:
    before = hashlib.sha256((old / FILE).read_bytes()).hexdigest()
    assert [(run.steps_done, run.problem) for run in list_runs(tmp_path)] == [(3, "")]
    call("report", old, "--out", tmp_path / "report.html")
    assert json.loads(call("compare", old, "--json"))["arms"][1]["arm"] == "fixed"
    call("export", old, "--problems", "--all", "--out", tmp_path / "data")
    exported = (tmp_path / "data" / "problems.jsonl").read_text().splitlines()
    assert exported and "def f(" in json.loads(exported[0])["program"]
    assert len(digest(old)) == 64
    assert hashlib.sha256((old / FILE).read_bytes()).hexdigest() == before
    assert [path.name for path in old.iterdir()] == [FILE]


def test_an_old_run_is_not_resumed_and_the_version_that_can_is_named(old: Path) -> None:
    words = r"is a run of redqueen 0\.1\.0: this version can read it, but not continue it"
    result = CliRunner().invoke(app, ["resume", str(old)])
    assert isinstance(result.exception, ConfigError)
    with pytest.raises(ConfigError, match=words):
        raise result.exception
    with pytest.raises(ConfigError, match=words):
        Ledger.open(old)


def test_cross_play_of_an_old_run_names_the_version_that_can(old: Path) -> None:
    result = CliRunner().invoke(app, ["crossplay", str(old)])
    assert isinstance(result.exception, ConfigError)
    assert "is a run of redqueen 0.1.0, whose snapshots this version does not read" in str(
        result.exception
    )


def test_settings_move_to_their_new_sections() -> None:
    values = tomllib.loads("seed = 1\n[engine]\nrank = 4\nshare_prompts = true\n")
    assert rename_settings(values) == {
        "seed": 1, "lora": {"rank": 4}, "engine": {"share_prompts": True},
    }  # fmt: skip
