"""Checkpoints that can be moved: without the optimizers' moments, with weights in bfloat16. A run
goes on from them, and says that it is not the run that it would have been."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import redqueen as rq
from redqueen.core.estimate import checkpoint_bytes
from redqueen.errors import ConfigError
from redqueen.models.shape import read_shape

SETTINGS = [
    "steps=2", "population.teachers=1", "population.students=1", "tasks.kinds=['code_o']",
    "propose.prompts=1", "propose.samples=4", "propose.max_tokens=96", "solve.attempts=2",
    "solve.max_tokens=64", "evaluate.suite=", "sandbox.workers=1", "evolve.every=0",
    "update.warmup_steps=4", "update.target_pass_rate=0",
]  # fmt: skip
SMALL = ["ledger.checkpoint_optimizer=false", "ledger.checkpoint_dtype=bfloat16"]


def size(run: Path, step: int) -> int:
    folder = run / "checkpoints" / f"{step:06d}"
    return sum(file.stat().st_size for file in folder.rglob("*.safetensors"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, more in (("full", []), ("small", SMALL)):
        with rq.Run.create(rq.load_config("pawn-cpu", [*SETTINGS, *more]), folder / name) as run:
            run.play_step()
            run.save()
            run.play_step()
    return {name: folder / name for name in ("full", "small")}


def test_a_small_checkpoint_has_a_sixth_of_the_size_and_whole_members(
    runs: dict[str, Path],
) -> None:
    assert 5 < size(runs["full"], 2) / size(runs["small"], 2) < 6.5
    assert not (runs["small"] / "checkpoints/000002/optimizer").exists()
    full, small = (
        load_file(runs[name] / "checkpoints/000002/adapters/0/S0/adapter_model.safetensors")
        for name in ("full", "small")
    )
    assert {values.dtype for values in small.values()} == {torch.bfloat16}
    for name, values in full.items():
        assert torch.equal(values.to(torch.bfloat16), small[name])
    config = rq.load_config("pawn-cpu", [*SETTINGS, *SMALL])
    expected = checkpoint_bytes([config], read_shape("pawn"))
    assert size(runs["small"], 2) == pytest.approx(expected, rel=0.1)


def test_what_is_kept_changes_nothing_while_a_run_goes_on(runs: dict[str, Path]) -> None:
    texts = []
    for folder in runs.values():
        with rq.open_run(folder) as run:
            texts.append([(row["text"], row["logprob"]) for row in run.proposals()])
    assert texts[0] == texts[1] != []


def test_a_resume_says_what_was_lost_and_warms_up_again(
    runs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with rq.Run.resume(runs["small"], steps=3) as run:
        lost = "without the optimizers' moments and with weights in bfloat16"
        assert run.ledger.about["resumed/2"] == lost and lost in caplog.text
        world = run.worlds[0]
        member = max(world.members, key=lambda member: member.version)
        assert member.version
        rate = world.own_learning_rate(member) / 4
        assert world.learning_rate(member) == pytest.approx(rate)
        assert [step.number for step in run] == [3]
    caplog.clear()
    with rq.Run.resume(runs["full"], steps=3) as run:
        assert not [name for name in run.ledger.about if name.startswith("resumed")]
        assert "moments" not in caplog.text
        assert run.worlds[0].learning_rate(run.worlds[0].by_id(member.id)) > 1.5 * rate


def test_engines_that_restore_workers_from_checkpoints_need_whole_ones() -> None:
    with pytest.raises(ConfigError, match="to the bit"):
        rq.load_config("pawn-cpu", [*SMALL, "engine.type=processes"])
