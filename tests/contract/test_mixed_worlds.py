"""Worlds in one engine call: each leaves the records that it leaves alone, and only worlds that
agree on what a call is told share one."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from redqueen.engine.protocol import Loss, TrainSample, TrainStats
from redqueen.engine.text_sampler import OnText, TextCompletion, TextRequest
from redqueen.ledger.store import digest, open_to_read
from redqueen.ledger.tables import table_shapes
from redqueen.stages.update.losses import bind_loss
from tests.scripted import (
    CountingEngine,
    Script,
    ScriptedArm,
    ScriptedSampler,
    TrustingSandbox,
    both,
    play,
    scripted_worlds,
    student,
    teacher,
)

pytestmark = pytest.mark.slow

TEACHERS = [teacher(0.0, 1.0), teacher(1.0, 2.0, valid=0.8)]
STUDENTS = [student(0.0), student(1.0)]
COMMON = ("steps=4", "evolve.every=2", "evolve.share=0.5")


def arm(name: str, *settings: str) -> ScriptedArm:
    return ScriptedArm(name, TEACHERS, STUDENTS, [*COMMON, *settings])


class RecordingSampler(ScriptedSampler):
    """Keeps the slots and the temperature of every call."""

    def __init__(self, scripts: Mapping[int, Script]) -> None:
        super().__init__(scripts)
        self.calls: list[tuple[frozenset[int], float]] = []

    def sample(
        self, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
    ) -> list[TextCompletion]:
        self.calls.append((frozenset(request.slot for request in requests), temperature))
        return super().sample(requests, temperature, on_finish)


class RecordingEngine(CountingEngine):
    """Keeps the slots and the loss of every call."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.calls: list[tuple[frozenset[int], Loss]] = []

    def accumulate(self, samples: Sequence[TrainSample], loss: Loss, kl: float = 0.0) -> TrainStats:
        self.calls.append((frozenset(sample.slot for sample in samples), loss))
        return super().accumulate(samples, loss, kl)


@dataclass(frozen=True)
class Calls:
    """Every engine call: the worlds it was for, and what it was told."""

    sampled: list[tuple[set[int], float]]
    trained: list[tuple[set[int], Loss]]


def play_worlds(folder: Path, arms: Sequence[ScriptedArm], mixed: bool = True) -> Calls:
    with scripted_worlds(folder, TrustingSandbox(), arms, mixed) as run:
        assert isinstance(run.ports.sampler, ScriptedSampler)
        sampler = run.ports.sampler = RecordingSampler(run.ports.sampler.scripts)
        engine = run.ports.engine = RecordingEngine(run.engine.slots)
        play(run)
    owners = [number for number, own in enumerate(arms) for _ in range(own.config().slots)]
    return Calls(
        [({owners[slot] for slot in slots}, told) for slots, told in sampler.calls],
        [({owners[slot] for slot in slots}, loss) for slots, loss in engine.calls],
    )


def records(folder: Path, world: int) -> dict[str, list[tuple[Any, ...]]]:
    """All that a world has left in the ledger."""
    rows = {}
    with contextlib.closing(open_to_read(folder)) as connection:
        for shape in table_shapes().values():
            if shape.has_steps and "world" in shape.columns:
                columns = ", ".join(name for name in shape.columns if name != "world")
                query = f"SELECT {columns} FROM {shape.name} WHERE world = ?"
                rows[shape.name] = sorted(map(tuple, connection.execute(query, (world,))), key=repr)
    return rows


@pytest.mark.parametrize("optimizer_steps", [1, 3])
def test_worlds_in_one_engine_call_leave_the_records_that_each_leaves_alone(
    tmp_path: Path, optimizer_steps: int
) -> None:
    steps = f"update.optimizer_steps={optimizer_steps}"
    fixed = tmp_path / "fixed.jsonl"
    fixed.write_text(
        "".join(
            json.dumps({"kind": "code_o", "program": program, "inputs": ["3"]}) + "\n"
            for number in range(9)
            for program in [f"def f(x):\n    level = {number / 3}\n    return x + {number}\n"]
        )
    )
    members = [both(teacher(0.0, 1.0), student(0.5))] * 2
    no_teachers = [*COMMON, steps, "seed=9"]
    arms = [
        arm("plain", "seed=7", steps),
        arm("other", "seed=8", steps, "update.estimator=grpo", "update.learning_rate=1e-2"),
        ScriptedArm("self-play", [], members, [*no_teachers, "match.scheme=self_play"]),
        ScriptedArm("fixed", [], STUDENTS, [*no_teachers, f"fixed.source={fixed}"]),
    ]
    calls = play_worlds(tmp_path / "together", arms)
    two = [{0, 1, 2}, {0, 1, 2, 3}] * 2
    exams = [{0, 1}], [{0, 1, 2, 3}]  # in the last step nobody is replaced, but one is chosen
    assert [worlds for worlds, _ in calls.sampled] == [*two, *exams[0], *two, *exams[1]]
    assert [worlds for worlds, _ in calls.trained] == [{0, 1, 2, 3}] * 4 * optimizer_steps
    for number, own in enumerate(arms):
        play_worlds(tmp_path / own.name, [own])
        together, alone = records(tmp_path / "together", number), records(tmp_path / own.name, 0)
        for table in alone:
            assert together[table] == alone[table], (own.name, table)
        assert alone["attempts"] and alone["updates"] and alone["metrics"] and alone["exams"]
    assert records(tmp_path / "plain", 0)["deaths"]


def test_worlds_that_are_not_mixed_leave_the_same_records_in_calls_of_their_own(
    tmp_path: Path,
) -> None:
    arms = [arm("a", "seed=1"), arm("b", "seed=2")]
    play_worlds(tmp_path / "mixed", arms)
    calls = play_worlds(tmp_path / "apart", arms, mixed=False)
    two = [{0}, {0}, {1}, {1}, {0}, {0}, {0}, {1}, {1}, {1}]  # the second with an exam
    assert [worlds for worlds, _ in calls.sampled] == two * 2
    assert digest(tmp_path / "apart") == digest(tmp_path / "mixed")


@pytest.mark.parametrize(
    "settings",
    [
        ["propose.temperature=0.7"], ["solve.temperature=0.7"], ["update.kl=0.1"], ["update.grad_clip=2"],
        ["update.weight_decay=0.1"], ["update.optimizer_steps=2"], ["update.loss=dapo"], ["update.loss.average=sequences"],
    ],
)  # fmt: skip
def test_worlds_that_differ_in_what_an_engine_call_is_told_are_not_mixed(
    tmp_path: Path, settings: list[str]
) -> None:
    arms = [arm("a", "seed=1"), arm("b", "seed=2"), arm("c", "seed=3", *settings)]
    arms = [replace(own, settings=[*own.settings, "evolve.exam.problems=0"]) for own in arms]
    calls = play_worlds(tmp_path, arms)
    assert [worlds for worlds, _ in calls.sampled] == [{0, 1}, {0, 1}, {2}, {2}] * 4
    config = arms[2].config()
    own = [config.propose.temperature, config.solve.temperature]
    assert [temperature for _, temperature in calls.sampled] == [1.0, 1.0, *own] * 4
    losses = {2 in worlds: loss for worlds, loss in calls.trained if worlds in ({0, 1}, {2})}
    assert len(losses) == 2 and len(calls.trained) >= 8
    assert losses[False].average == "tokens"
    assert losses[True].average == bind_loss(config.update.loss).average


def test_mixed_worlds_that_are_stopped_and_resumed_have_the_records_of_those_that_are_not(
    tmp_path: Path,
) -> None:
    arms = [arm("a", "seed=1"), arm("b", "seed=2")]
    play_worlds(tmp_path / "straight", arms)
    for until in (1, 3, None):
        with scripted_worlds(tmp_path / "stopped", TrustingSandbox(), arms, True) as run:
            play(run, until)
    assert digest(tmp_path / "stopped") == digest(tmp_path / "straight")
