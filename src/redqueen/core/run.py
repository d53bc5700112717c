"""A run: worlds that play step after step, each step in the ledger whole or not at all, with a
checkpoint to go on from.

The order is what makes a kill harmless: first the ledger, in one transaction, then the checkpoint.
A resume takes the newest checkpoint that is whole, takes the later steps out of the ledger, and
plays them again. Random streams follow from seed and step: they come out alike.
"""

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redqueen.config.schema import Config
from redqueen.core.state import StepState, birth_row, rating_row
from redqueen.core.step import Tools, play
from redqueen.core.world import World
from redqueen.errors import RedQueenError, StorageError
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.durable import make_folder
from redqueen.ledger.snapshots import write_snapshot
from redqueen.ledger.store import Ledger

if TYPE_CHECKING:
    from redqueen.engine.protocol import Engine

ENGINE_FILE = "engine.safetensors"


class Degenerate(RedQueenError):
    """A run that has nothing left to learn from."""


@dataclass(slots=True)
class Run:
    config: Config
    worlds: list[World]
    tools: Tools
    ledger: Ledger
    checkpoints: Checkpoints
    mixes_worlds: bool = False
    """Whether one engine call may serve several worlds. Faster, but then a world's figures depend
    on the others in the last bits."""
    step: int = 0
    """The last one that is whole."""

    @property
    def engine(self) -> "Engine":
        return self.tools.engine

    def begin(self) -> None:
        """Write down what is there before the first step."""
        rows: dict[str, list[dict[str, Any]]] = {"births": [], "ratings": []}
        for world in self.worlds:
            rows["births"] += [
                {"world": world.number, **birth_row(member)} for member in world.members
            ]
            rows["ratings"] += [
                {"world": world.number, **rating_row(member)} for member in world.members
            ]
        self.ledger.write(0, rows)
        self.save()

    def restore(self) -> None:
        """Go back to the newest checkpoint that is whole."""
        self.checkpoints.sweep()
        last = self.ledger.last_step()
        found = self.checkpoints.newest(at_most=last)
        if found is None and last > 0:
            raise RedQueenError(
                f"no checkpoint of the run in {self.ledger.folder} can be read, so it cannot go on. "
                "Its ledger is intact: `redqueen report` and `redqueen export --problems` still work."
            )
        if found is None:  # killed before the first checkpoint: nothing was played yet
            self.ledger.truncate(-1)
            self.begin()
            return
        self.engine.load(found.folder / ENGINE_FILE)
        for world, snapshot in zip(self.worlds, found.state["worlds"], strict=True):
            world.restore(snapshot)
        self.ledger.truncate(found.step)
        self.step = found.step

    def save(self) -> None:
        state = {"worlds": [world.snapshot() for world in self.worlds]}
        self.checkpoints.save(self.step, {ENGINE_FILE: self.engine.save}, state)

    def play(
        self, told: Callable[[list[StepState], float], None], asked_to_stop: Callable[[], bool]
    ) -> None:
        """The steps that are left. `told` gets each step's turns and its seconds; a stop comes
        after a step, never within."""
        self._end_if_all_have()  # killed after a step that was the last, it ends here
        while self.step < self.config.steps and not asked_to_stop():
            started = time.monotonic()
            turns = self.play_step(self.step + 1)
            told(turns, time.monotonic() - started)
            self._end_if_all_have()
        if (
            self.step < self.config.steps and self.step % self.config.ledger.checkpoint_every
        ):  # asked to stop: no step is to be played again
            self.save()

    def _end_if_all_have(self) -> None:
        if all(world.ended for world in self.worlds):
            raise Degenerate("\n".join(dict.fromkeys(world.ended for world in self.worlds)))

    def play_step(self, step: int) -> list[StepState]:
        self.tools.timings.clear()
        turns = [StepState(world, step) for world in self.worlds if not world.ended]
        for together in _together(turns, self.mixes_worlds):
            play(together, self.tools)
        for turn in turns:
            turn.world.ended = _end_of(turn)
        with self.tools.timed("ledger"):
            self.ledger.write(step, _merged([turn.rows() for turn in turns]))
            self.step = step
            every = self.config.ledger.snapshot_every
            if (
                every and step % every == 0
            ):  # before the checkpoint: a step that has one is not played again
                self._snapshot()
            last = step == self.config.steps or all(world.ended for world in self.worlds)
            if step % self.config.ledger.checkpoint_every == 0 or last:
                self.save()
        self.ledger.add(
            "timings",
            [
                {"step": step, "stage": stage, "seconds": s, "waited_s": w}
                for stage, (s, w) in self.tools.timings.items()
            ],
        )
        return turns

    def _snapshot(self) -> None:
        """Everybody's weights, and who they are. A resume that plays the step again writes the
        same."""
        members = [
            {"world": world.number, "member": one.id, "role": one.role, "slot": world.slot(one)}
            for world in self.worlds
            for one in world.members
        ]
        write_snapshot(self.ledger.folder, self.step, self.engine.save_weights, members)


def _end_of(turn: StepState) -> str:
    """Why a world can learn nothing more; empty when it can."""
    world, stop = turn.world, turn.world.config.stop
    if turn.broken:
        return (
            f"stopped after step {turn.step}: the gradient of {', '.join(turn.broken)}, or the probability of what was written, is no number. "
            "Nothing was learned from it. Lower update.learning_rate in a new run; "
            "if it is the first step, the base's dtype may be too narrow (dtype=float32)."
        )
    if world.steps_without_problem >= stop.steps_without_problem:
        return (
            f"stopped after step {turn.step}: no proposal was a valid problem in {world.steps_without_problem} steps. "
            "The base may not understand the prompts (look at `verify/rejected/...`), "
            "or the teachers have unlearned it (lower update.learning_rate)."
        )
    if world.steps_without_update >= stop.steps_without_update:
        return (
            f"stopped after step {turn.step}: in {world.steps_without_update} steps no member had anything to learn, "
            "because all rewards of every prompt were equal. "
            "More solve.attempts or propose.samples, or other problems, would make a difference."
        )
    for role in (
        "teacher",
        "student",
        "both",
    ):  # all begin as the base: who has not learned yet does not count
        least = turn.metrics.get(f"population/least_distance/{role}", math.inf)
        if least < stop.least_distance and all(
            member.version for member in world.members if member.role == role
        ):
            return (
                f"stopped after step {turn.step}: two members of the role {role} have become one "
                f"(distance {least:.3g}, stop.least_distance={stop.least_distance})."
            )
    return ""


def _together(turns: Sequence[StepState], mixed: bool) -> list[list[StepState]]:
    """Which worlds share engine calls: those that agree in what a call is told, or each alone."""
    if not mixed:
        return [[turn] for turn in turns]
    groups: dict[str, list[StepState]] = {}
    for turn in turns:
        config = turn.world.config
        told = (
            config.propose.temperature,
            config.solve.temperature,
            config.update.model_dump(exclude=_OWN),
        )
        groups.setdefault(repr(told), []).append(turn)
    return list(groups.values())


_OWN = {"estimator", "learning_rate", "teacher_learning_rate"}
"""Settings of the update that worlds in one engine call may differ in."""


def _merged(tables: Sequence[dict[str, list[dict[str, Any]]]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [row for rows in tables for row in rows[name]] for name in tables[0]}


def run_folder(root: Path, name: str) -> Path:
    """A folder of its own for a run without a name: runs/NAME-1, -2, ... It is made at once, so
    that two runs never choose the same one."""
    number = 1
    try:
        make_folder(root)
        while True:
            folder = root / f"{name}-{number}"
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
            number += 1
    except OSError as error:
        raise StorageError(
            f"no run can be made in {root}: {error}. Choose another folder with --out."
        ) from error
