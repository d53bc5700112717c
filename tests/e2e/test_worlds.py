"""Many worlds in one run: a world of a study plays as it would alone; cross-play and retention come
out of a run."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.config.sandbox import SandboxConfig
from redqueen.config.study import load_study
from redqueen.config.toml import find_recipe, load_config, to_toml
from redqueen.core import build
from redqueen.core.build import read_arms
from redqueen.engine.protocol import Engine, EngineSpec, create_engine
from redqueen.errors import ConfigError, SandboxError
from redqueen.evaluate import targets
from redqueen.sandbox.pool import SandboxPool

pytestmark = pytest.mark.slow

COMMON = """
steps = 2
base = "pawn"
device = "cpu"
[population]
teachers = 2
students = 2
[evolve]
every = 1
share = 0.5
[archive]
seeds = "pawn"
seed_count = 8
seed_tiers = [4, 6]
[tasks]
kinds = ["code_o"]
[propose]
prompts = 1
samples = 3
max_tokens = 64
max_prompt_chars = 800
[solve]
attempts = 4
max_tokens = 40
[ledger]
snapshot_every = 1
[evaluate]
suite = ""
"""
STUDY = """
recipe = "{recipe}"
seeds = [5]
[arms.solo.population]
teachers = 0
students = 1
[arms.solo.match]
scheme = "self_play"
[arms.duo]
"""


def call(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A study of two worlds, and its second world alone."""
    folder = tmp_path_factory.mktemp("worlds")
    (folder / "duo.toml").write_text(COMMON)
    (folder / "study.toml").write_text(STUDY.format(recipe=folder / "duo.toml"))
    call("study", str(folder / "study.toml"), "--out", str(folder / "study"))
    call("run", str(folder / "duo.toml"), "--out", str(folder / "alone"), "--set", "seed=5")
    return folder / "study", folder / "alone"


def records(folder: Path, world: int) -> dict[str, list[tuple[object, ...]]]:
    found = {}
    for table in (
        "births",
        "deaths",
        "pairings",
        "problems",
        "proposals",
        "attempts",
        "ratings",
        "updates",
        "metrics",
    ):
        columns = [row[1] for row in query(folder, f"PRAGMA table_info({table})")]
        compared = ", ".join(column for column in columns if column != "world")
        timed = " AND name NOT LIKE 'time/%'" if table == "metrics" else ""
        rows = query(folder, f"SELECT {compared} FROM {table} WHERE world = ?{timed}", world)
        found[table] = sorted(rows, key=repr)
    return found


def query(folder: Path, text: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        return connection.execute(text, values).fetchall()


def test_a_world_of_a_study_has_the_records_it_would_have_alone(runs: tuple[Path, Path]) -> None:
    together, alone = records(runs[0], 1), records(runs[1], 0)
    assert alone["attempts"] and alone["deaths"] and alone["updates"]
    assert together == alone


def test_crossplay_fills_a_matrix_and_keeps_it_in_the_ledger(runs: tuple[Path, Path]) -> None:
    (world,) = json.loads(call("crossplay", str(runs[1]), "--each", "4", "--json").splitlines()[-1])
    assert (
        world["steps"] == [1, 2]
        and len(world["solved"]) == 2
        and all(len(row) == 2 for row in world["solved"])
    )
    suites = {suite for (suite,) in query(runs[1], "SELECT DISTINCT suite FROM evals")}
    assert suites <= {"crossplay/1", "crossplay/2"} and suites
    posed = "SELECT count(*) FROM problems WHERE step = ?"  # whether anybody solved them or not
    counts = [query(runs[1], posed, step)[0][0] for step in (1, 2)]
    assert world["problems"] == [min(4, count) for count in counts]


def test_crossplay_is_refused_on_another_base(runs: tuple[Path, Path], other_pawn: Path) -> None:
    result = CliRunner().invoke(app, ["crossplay", str(runs[1]), "--base", str(other_pawn)])
    assert result.exit_code != 0
    assert "other weights than when the members were made" in str(result.exception)


def test_members_of_all_worlds_are_asked_together_and_count_each_in_its_own(
    runs: tuple[Path, Path],
) -> None:
    words = (
        "--suite",
        "heldout-quick",
        "--limit",
        "3",
        "--max-tokens",
        "4",
        "--member",
        "students",
        "--device",
        "cpu",
        "--json",
    )
    found = json.loads(call("eval", str(runs[0]), *words).splitlines()[-1])["suites"][
        "heldout-quick"
    ]
    solo, *duo = found["members"]
    assert solo == "0/B0" and all(name.startswith("1/S") for name in duo) and len(duo) == 2
    assert [(one["world"], one["arm"], one["members"]) for one in found["populations"]] == [
        (1, "duo", duo)
    ]
    kept = query(
        runs[0],
        "SELECT world, count(DISTINCT subject), count(*) FROM evals WHERE suite LIKE 'eval/%' GROUP BY world",
    )
    # the single student is its own soup and chosen one; the two have a vote on the one item whose
    # answers can be compared; both beside the base, free and forced
    assert kept == [(0, 5, 15), (1, 6, 16)]
    one = json.loads(call("eval", f"{runs[0]}/{duo[0]}", *words[:6], *words[8:]).splitlines()[-1])
    assert (
        one["suites"]["heldout-quick"]["against_base"] == found["members"][duo[0]]["against_base"]
    )


def test_retention_tells_of_every_operator_beside_copies(runs: tuple[Path, Path]) -> None:
    words = (
        "--operator",
        "gaussian",
        "--seeds",
        "1",
        "--updates",
        "3",
        "--problems",
        "2",
        "--json",
    )
    found = json.loads(call("retention", str(runs[1]), *words).splitlines()[-1])
    assert [(one["operator"], one["verdict"]) for one in found] == [
        ("copy_parent", "control"),
        ("gaussian", "undecided"),
    ]


@pytest.fixture(scope="module")
def without_walls(runs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As somebody else may have made it: its settings leave walls down."""
    folder = tmp_path_factory.mktemp("theirs") / "run"
    shutil.copytree(runs[1], folder)
    ((_, config),) = read_arms(folder)
    walls = {"unsafe": True, "without": ["landlock"], "address": "elsewhere:6379"}
    theirs = config.with_settings(sandbox=walls, engine={"address": "elsewhere:6379"})
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE worlds SET config = ?", [theirs.model_dump_json()])
        connection.execute("UPDATE run SET value = ? WHERE name = 'config'", [to_toml(theirs)])
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[SandboxConfig]:
    """The settings of the sandboxes that a command asks for. It gets none."""
    asked: list[SandboxConfig] = []

    def refuse(self: SandboxPool, config: SandboxConfig) -> None:
        asked.append(config)
        raise SandboxError("not opened")

    monkeypatch.setattr(SandboxPool, "__init__", refuse)
    return asked


READERS = {
    "crossplay": ["crossplay", "RUN"],
    "eval": ["eval", "RUN", "--suite", "heldout-quick", "--limit", "1"],
    "explain": ["explain", "RUN", "--limit", "1"],
    "play": ["play", "RUN"],
    "report": ["report", "RUN", "--explain"],
    "retention": ["retention", "RUN", "--seeds", "1", "--updates", "3"],
    "verify": ["verify", "RUN", "--again"],
}


@pytest.mark.parametrize("name", READERS)
def test_a_run_does_not_choose_what_walls_stand_around_who_reads_it(
    name: str,
    without_walls: Path,
    opened: list[SandboxConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [str(without_walls) if word == "RUN" else word for word in READERS[name]]
    clusters: list[str] = []

    def create(name: str, spec: EngineSpec) -> Engine:
        clusters.append(spec.config.address)
        return create_engine(name, spec)

    for module in (build, targets):
        monkeypatch.setattr(module, "create_engine", create)
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, SandboxError)
    (own,) = opened
    assert (own.unsafe, own.without, own.address) == (False, (), "local")
    assert {*clusters} <= {"local"}
    if name in ("crossplay", "eval", "play", "retention"):
        result = CliRunner().invoke(app, [*words, "--sandbox", "unsafe"])
        assert opened[1].unsafe and "unsafe mode" in result.stderr


def test_a_run_that_goes_on_has_the_walls_it_was_started_with(
    without_walls: Path, opened: list[SandboxConfig]
) -> None:
    CliRunner().invoke(app, ["resume", str(without_walls), "--steps", "3"])
    assert [(config.unsafe, config.without) for config in opened] == [(True, ("landlock",))]


def test_crossplay_without_snapshots_says_which_setting_takes_them(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["crossplay", str(tmp_path)])
    assert result.exit_code != 0


def test_the_study_of_the_package_has_its_arms_with_six_seeds_each_and_declares_outcomes() -> None:
    worlds = load_study(find_recipe("study-pawn"), [])
    arms = list(dict.fromkeys(arm for arm, _ in worlds))
    assert len(arms) == 12 and all(
        [config.seed for arm, config in worlds if arm == one] == list(range(20, 26)) for one in arms
    )
    assert len({config.stop.tokens for _, config in worlds} - {0}) == 1
    assert len({config.evaluate.outcomes for _, config in worlds}) == 1
    by_arm = dict(worlds)
    azr = by_arm["single-azr"]
    assert (azr.reward.teacher.type, azr.update.estimator.type) == ("azr", "trr_pp")
    rates = {by_arm[arm].update.learning_rate for arm in arms if arm.startswith("single-azr")}
    assert len(rates) == 3 and azr.update.attempts == 1
    assert by_arm["fixed"].is_fixed and not by_arm["4t4s-frozen-teachers"].update.target_pass_rate


def test_a_part_of_a_study_is_played_by_naming_arms_and_seeds() -> None:
    path = find_recipe("study-pawn")
    worlds = load_study(path, ["seeds=[7]"], ["fixed", "single-azr"])
    assert [(arm, config.seed) for arm, config in worlds] == [("single-azr", 7), ("fixed", 7)]
    with pytest.raises(ConfigError, match="Did you mean 'fixed'"):
        load_study(path, [], ["fixd"])


def test_arms_that_differ_in_what_is_shared_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("[arms.a]\nsteps = 1\n[arms.b]\nsteps = 2\n")
    from redqueen.core.build import check_arms

    with pytest.raises(ConfigError, match="'a' and 'b' differ in 'steps'"):
        check_arms(load_study(path, []))


def test_an_unknown_part_of_a_study_is_named(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("[arm.a]\n")
    with pytest.raises(ConfigError, match="Did you mean 'arms'"):
        load_study(path, [])


def test_every_recipe_of_the_package_can_be_read() -> None:
    for path in find_recipe("pawn-cpu").parent.glob("*.toml"):
        assert path.read_text().startswith("# ")
        assert load_study(path, []) if path.stem.startswith("study") else load_config(path)
