"""Checkpoints that are written while the next step is played: the same records, nothing lost, and
a failing disk is still said."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import redqueen as rq
from redqueen.config.schema import Config
from redqueen.config.toml import find_recipe, load_config
from redqueen.errors import StorageError
from redqueen.ledger import checkpoint as checkpoint_module
from redqueen.ledger.background import BackgroundWriter
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.store import digest

SMALL = (
    "population.teachers=1", "population.students=1", "tasks.kinds=['code_o']",
    "archive.seed_count=4", "archive.seed_tiers=[2, 3]", "propose.prompts=1", "propose.samples=2",
    "propose.max_tokens=48", "propose.max_prompt_chars=300", "solve.attempts=2",
    "solve.max_tokens=24", "solve.temperature=1.5", "evaluate.suite=", "sandbox.workers=1",
    "stop.steps_without_problem=99", "stop.steps_without_update=99", "steps=3",
)  # fmt: skip


def small(background: bool, **settings: Any) -> Config:
    config = load_config(find_recipe("pawn-cpu"), SMALL)
    return config.with_settings(ledger={"background": background}, **settings)


@dataclass
class Gate:
    """Where a checkpoint waits that has no name yet."""

    arrived: Event = field(default_factory=Event)
    opened: Event = field(default_factory=Event)


@contextmanager
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Within: a checkpoint does not get its name until the gate is opened."""
    gate, publish = Gate(), Checkpoints._publish

    def wait(self: Checkpoints, staging: Path, final: Path) -> None:
        gate.arrived.set()
        assert gate.opened.wait(60)
        publish(self, staging, final)

    monkeypatch.setattr(Checkpoints, "_publish", wait)
    try:
        yield gate
    finally:
        gate.opened.set()


@pytest.mark.slow
def test_records_and_members_are_the_same_as_when_it_stops_for_every_checkpoint(
    tmp_path: Path,
) -> None:
    for background in (False, True):
        with rq.Run.create(small(background), tmp_path / str(background)) as run:
            steps = [step.number for step in run]
        assert steps == [1, 2, 3]
    waited, beside = (tmp_path / str(background) for background in (False, True))
    for folder in (waited, beside):
        assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
            "000002",
            "000003",
        ]
    with rq.open_run(waited) as one, rq.open_run(beside) as other:
        assert list(one.attempts()) == list(other.attempts())
        assert list(one.updates()) == list(other.updates())
    for file in sorted((waited / "checkpoints/000003").rglob("*.safetensors")):
        ours, theirs = load_file(file), load_file(beside / file.relative_to(waited))
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours.keys() | theirs.keys())


@pytest.mark.slow
def test_a_kill_while_a_checkpoint_is_being_written_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rq.Run.create(small(True), tmp_path / "run") as run:
        with blocked(monkeypatch) as gate:
            run.play_step()  # its checkpoint hangs
            assert gate.arrived.wait(60)
            assert not (run.folder / "checkpoints/000001").exists()
            shutil.copytree(run.folder, tmp_path / "in-step-2", ignore=_no_lock)
            monkeypatch.setattr(run.ledger, "write", _then(run.ledger.write, gate, tmp_path, run))
            run.play_step()
        run.play_step()
    assert digest(tmp_path / "in-step-2") != digest(run.folder)
    for killed, last in (("in-step-2", 1), ("after-ledger-2", 2)):
        assert (tmp_path / killed / "checkpoints").is_dir()
        with rq.open_run(tmp_path / killed) as copy:
            assert copy.steps == last
        with rq.Run.resume(tmp_path / killed) as resumed:
            assert resumed.step < last  # the checkpoint of that step was never there
            for _ in resumed:
                pass
        assert digest(tmp_path / killed) == digest(run.folder)


def _no_lock(folder: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name == "lock"]


def _then(write: Callable[..., None], gate: Gate, folder: Path, run: rq.Run) -> Callable[..., None]:
    """Step 2 is in the ledger while the checkpoint of step 1 still is not there."""

    def both(*args: Any) -> None:
        write(*args)
        if args[0] == 2:
            shutil.copytree(run.folder, folder / "after-ledger-2", ignore=_no_lock)
        gate.opened.set()

    return both


@pytest.mark.slow
def test_a_full_disk_is_said_in_the_next_step_and_the_run_goes_on_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    said = r"checkpoint of step 1 .* No space .* redqueen resume"
    with (
        pytest.raises(StorageError, match=said),
        rq.Run.create(small(True), tmp_path / "run") as run,
        monkeypatch.context() as patch,
    ):
        patch.setattr(checkpoint_module, "sync_tree", full)
        run.play_step()
        run.play_step()
    with rq.Run.resume(tmp_path / "run") as run:
        assert run.step == 0 and run.play_step().number == 1


def test_a_failing_write_does_not_hide_what_has_ended_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ZeroDivisionError), rq.Run.create(small(True), tmp_path / "run") as run:
        monkeypatch.setattr(checkpoint_module, "sync_tree", full)
        run._save()
        raise ZeroDivisionError
    assert "No space left" in caplog.text


def test_at_most_one_checkpoint_is_being_written_and_its_state_does_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path)
    writer, order = BackgroundWriter(checkpoints), list[str]()
    state = {"rewards": {"T0": 1}}

    def write(name: str) -> Callable[[Path], list[Path]]:
        def into(folder: Path) -> list[Path]:
            order.append(name)
            (folder / "file").write_text(name)
            return [Path("file")]

        return into

    with blocked(monkeypatch) as gate:
        writer.submit(1, write("first"), state)
        state["rewards"]["T0"] = 2  # the world goes on
        writer.check()
        assert checkpoints.newest() is None
        gate.opened.set()
        writer.submit(2, write("second"), state)
        assert (tmp_path / "checkpoints/000001").exists()
        writer.close()
    first, second = (Checkpoints(tmp_path).newest(at_most=step) for step in (1, 2))
    assert first is not None and first.state == {"rewards": {"T0": 1}}
    assert second is not None and second.state == {"rewards": {"T0": 2}}
    assert order == ["first", "second"]
