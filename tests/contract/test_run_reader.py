"""A run is read in Python as tables of dicts, at any time and of any age."""

import importlib.util
import shutil
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from redqueen.errors import ConfigError
from redqueen.ledger import row_types
from redqueen.ledger.run_reader import RunReader, Table, open_run
from redqueen.ledger.store import FILE, Ledger, digest
from redqueen.ledger.tables import table_shapes
from tests.contract.test_old_runs import OLD
from tests.report.synthetic import Synthetic

_ROW_TYPES = {"fitness": "FitnessRow", "people": "PersonRow", "role_ratings": "RoleRatingRow"}
LATER = ("placements", "exams", "fitness", "people", "turns", "role_ratings")
"""Tables that 0.1 did not have."""
TABLES = sorted(table_shapes().keys() - {"run", "worlds", "marks"})

WHO = {"world": 0, "step": 1, "member": "S0", "role": "critic"}
TURN = {
    **WHO, "proposal": 0, "turn": 0, "game": "critique", "problem": "p", "round": 1, "version": 0,
    "prompt": 0, "shown": '["a0"]', "text": "", "tokens": 0, "logprob": 0.0, "finish_reason": "stop",
    "said": "correct", "truth": "wrong", "verdict": "wrong", "detail": "", "reward": -1.0,
    "advantage": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "two"
    Synthetic(steps=8, worlds=2, members=2, arm="full").write(folder)
    with Ledger.open(folder) as ledger:
        ledger.add("turns", [TURN])
        ledger.add("role_ratings", [{**WHO, "mu": 25.0, "sigma": 8.0}])
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    shutil.copy(OLD, tmp_path / FILE)
    return tmp_path


def rows(run: RunReader, table: str) -> Table[Any]:
    found: Table[Any] = getattr(run, table)()
    return found


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_read_with_the_columns_and_types_it_promises(
    name: str, folder: Path, old: Path
) -> None:
    promised = get_type_hints(
        getattr(row_types, _ROW_TYPES.get(name) or f"{name.removesuffix('s').title()}Row")
    )
    assert tuple(promised) == table_shapes()[name].columns
    for place in (folder, old):
        with open_run(place) as run:
            table = rows(run, name)
            assert len(table) == len(list(table)) and table.columns == tuple(promised)
            if place == folder or name not in LATER:
                assert tuple(table[0]) == table.columns


def test_lists_and_objects_are_decoded(folder: Path, old: Path) -> None:
    for place in (folder, old):
        with open_run(place) as run:
            problem = run.problems()[0]
            assert isinstance(problem["payload"]["program"], str)
            assert problem["features"]["loc"] > 0 and isinstance(problem["gold"], list)
            assert isinstance(run.births()[0]["parents"], list)
            assert isinstance(run.proposals()[-1]["shown"], list)


def test_one_world_can_be_read_alone(folder: Path) -> None:
    with open_run(folder) as run:
        assert {row["world"] for row in run.attempts()} == {0, 1}
        assert {row["world"] for row in run.attempts(world=1)} == {1}
        assert [world.arm for world in run.worlds] == ["full", "full"]
        assert [world.seed for world in run.worlds] == [0, 1]


def test_the_lineage_has_everybody_and_the_members_are_those_alive(folder: Path) -> None:
    with open_run(folder) as run:
        lineage, living = run.lineage(world=0), run.members(world=0)
        assert len(lineage) == len(run.births(world=0)) > len(living) == 4
        assert {row["member"] for row in lineage if row["died"] is None} == {
            row["member"] for row in living
        }
        child = next(row for row in lineage if row["born"] > 0)
        assert child["parents"] and child["operator"] != "new"
        assert next(row for row in lineage if row["died"])["reason"] == "truncation"
        assert run.member(living[0]["member"]).row == living[0]
        with pytest.raises(ConfigError, match="unknown living member 'S9'"):
            run.member("S9")


def test_settings_of_old_runs_are_todays(old: Path) -> None:
    with open_run(old) as run:
        assert run.steps == 3 and run.about["version"] == "0.1.0"
        assert run.config.lora.rank == 2
        assert run.worlds[1].config.is_fixed and not run.worlds[0].config.is_fixed
        assert run.digest() == digest(old)


def test_a_snapshot_does_not_move_while_the_run_goes_on(tmp_path: Path) -> None:
    Synthetic(steps=2).write(tmp_path / "run")
    with open_run(tmp_path / "run") as run, Ledger.open(tmp_path / "run") as ledger:
        with run.snapshot():
            assert run.steps == 2
            ledger.write(3, {})
            assert run.steps == 2
        assert run.steps == 3


def test_pandas_is_optional(folder: Path) -> None:
    with open_run(folder) as run:
        if importlib.util.find_spec("pandas") is None:
            with pytest.raises(ConfigError, match="pip install pandas"):
                run.metrics().to_pandas()
        else:
            frame = run.metrics().to_pandas()
            assert list(frame.columns) == ["world", "step", "name", "value"]
            assert len(frame) == len(run.metrics())
