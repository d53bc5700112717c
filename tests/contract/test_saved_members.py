"""Members out of checkpoints and snapshots: every member has its own weights, in every world, in
checkpoints of today and of runs before 0.2."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.engine.torch.engine import TorchEngine
from redqueen.engine.torch.first_edition import ENGINE_FILE
from redqueen.errors import ConfigError
from redqueen.evaluate.saved_adapters import load_adapters
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.members import choose_member, newest_checkpoint, saved_members
from redqueen.ledger.snapshots import snapshots
from redqueen.models.adapter import Adapter
from redqueen.models.peft_io import load_adapter
from redqueen.report.export.members import export_member

pytestmark = pytest.mark.slow

SETTINGS = [
    "steps=1",
    "base=pawn",
    "device=cpu",
    "engine.block=all",  # one matrix of all members, as it was before 0.2
    "lora.rank=2",
    "population.teachers=1",
    "population.students=2",
    "tasks.kinds=['code_o']",
    "archive.seeds=pawn",
    "archive.seed_count=8",
    "archive.seed_tiers=[2, 3]",
    "propose.prompts=1",
    "propose.samples=2",
    "propose.max_tokens=60",
    "solve.attempts=2",
    "solve.max_tokens=20",
    "evolve.every=0",
    "evolve.hall_of_fame.every=1",
    "evaluate.suite=",
    "ledger.snapshot_every=1",
]
HALLS = (2, 1)
"""Sizes of the halls of fame of the two worlds."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[int, str], Adapter]]:
    """A run of two worlds with halls of fame, and what is in its engine's slots, by world and
    member."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    arms = [
        (f"hall of {size}", load_config(None, [*SETTINGS, f"evolve.hall_of_fame.size={size}"]))
        for size in HALLS
    ]
    with Run.create(arms, folder) as run:
        for world in run.worlds:
            for member in world.members:  # told apart by their weights, learned or not
                slot = world.slot(member)
                adapter = run.engine.read(slot)
                next(iter(adapter.projections.values())).b.fill_(slot + 1)
                run.engine.write(slot, adapter, reset_optimizer=True)
        list(run)
        everybody = [
            (world, member)
            for world in run.worlds
            for member in (*world.members, *(past.member for past in world.hall_of_fame))
        ]
        assert [world.first_slot for world in run.worlds] == [0, 3 + 2 * HALLS[0]]
        assert isinstance(run.engine, TorchEngine) and run.engine.population is not None
        save_file({"weights": run.engine.population.weights}, folder.parent / ENGINE_FILE)
        return folder, {
            (world.number, member.id): run.engine.read(world.slot(member))
            for world, member in everybody
        }


def same(one: Adapter, other: Adapter) -> bool:
    return all(
        torch.equal(factor, other.projections[name][which])
        for name, pair in one.projections.items()
        for which, factor in enumerate(pair)
    )


def test_every_member_of_every_world_has_its_own_weights_in_a_checkpoint(played: Any) -> None:
    folder, expected = played
    checkpoint = newest_checkpoint(folder)
    members = saved_members(checkpoint)
    assert [(one.world, one.id, one.role) for one in members] == [
        (world, member, role)
        for world in (0, 1)
        for member, role in (("T0", "teacher"), ("S0", "student"), ("S1", "student"))
    ]
    for member in members:
        assert same(load_adapter(member.adapter), expected[member.world, member.id]), member
    # the halls of fame are there too, for a resume
    names = {f"{world}/{member}" for world, member in expected}
    assert {"0/T0@1", "1/S0@1"} & names
    adapters = checkpoint.folder / "adapters"
    assert {str(path.relative_to(adapters)) for path in adapters.glob("*/*")} == names


def test_an_export_of_a_later_world_is_its_member(played: Any, tmp_path: Path) -> None:
    folder, expected = played
    export_member(folder, "S1", tmp_path / "out", world=1)
    assert same(load_adapter(tmp_path / "out"), expected[1, "S1"])
    with pytest.raises(ConfigError, match="there is no world 2: this run has 2"):
        saved_members(newest_checkpoint(folder), 2)
    with pytest.raises(ConfigError, match="unknown living member 'S9'"):
        choose_member(saved_members(newest_checkpoint(folder), 1), "S9")


def test_a_snapshot_has_the_members_as_they_were(played: Any) -> None:
    folder, expected = played
    (taken,) = snapshots(folder)
    assert taken.step == 1 and len(taken.members) == 6
    for member in taken.members:
        assert same(load_adapter(member.adapter), expected[member.world, member.id]), member


def test_members_of_a_run_before_0_2_are_read_from_their_own_rows(
    played: Any, tmp_path: Path
) -> None:
    folder, expected = played
    old = Path(shutil.copytree(folder, tmp_path / "old"))
    newest = newest_checkpoint(old)

    def write(place: Path) -> list[Path]:
        shutil.copy(folder.parent / ENGINE_FILE, place)
        return [Path(ENGINE_FILE)]

    Checkpoints(old).save(newest.step, write, newest.state)
    checkpoint = newest_checkpoint(old)
    assert [path.name for path in checkpoint.folder.glob("*.safetensors")] == [ENGINE_FILE]
    members = saved_members(checkpoint)
    for member, adapter in zip(members, load_adapters(old, checkpoint, members), strict=True):
        assert same(adapter, expected[member.world, member.id]), member
    export_member(old, "S0", tmp_path / "out", world=1)
    assert same(load_adapter(tmp_path / "out"), expected[1, "S0"])


def test_a_resumed_run_has_every_member_where_it_was(played: Any, tmp_path: Path) -> None:
    folder, expected = played
    again = Path(shutil.copytree(folder, tmp_path / "again"))
    with Run.resume(again, steps=2) as run:
        for world in run.worlds:
            for member in (*world.members, *(past.member for past in world.hall_of_fame)):
                adapter = run.engine.read(world.slot(member))
                assert same(adapter, expected[world.number, member.id]), member
    optimizer = newest_checkpoint(again).folder / "optimizer"
    assert {str(file.relative_to(optimizer)) for file in optimizer.glob("*/*")} == {
        f"{world}/{member}.safetensors" for world, member in expected
    }
