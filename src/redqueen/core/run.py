"""A run: worlds that play step after step, each step in the ledger whole or not at all, with a
checkpoint to go on from.

    with Run.create(config, "runs/mine") as run:
        for step in run:
            print(step.number, step.metrics["solve/pass_rate"])

First the ledger, in one transaction, then the checkpoint: so a kill does no harm. A resume takes
the newest whole checkpoint and plays later steps again; streams follow from seed and step.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from redqueen.config.schema import Config
from redqueen.core.build import Arm, Parts, build_run, rebuild_run
from redqueen.core.fork import fork_run
from redqueen.core.grouping import group_worlds
from redqueen.core.inexact import note_losses, saving_of
from redqueen.core.people import leave_to_nobody, take_up
from redqueen.core.pipeline import Ports
from redqueen.core.placement import PlacementLog
from redqueen.core.state import PersonResult, Row, StepState, mean_metrics
from redqueen.core.step import play_step
from redqueen.core.stop import why_stop
from redqueen.core.warmup import warm_up
from redqueen.core.world import World
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.protocol import Engine, TakesSnapshots
from redqueen.engine.usage import Measured
from redqueen.errors import ConfigError, RedQueenError, StorageError, explain_disk
from redqueen.ledger.background import BackgroundWriter
from redqueen.ledger.lock import RunLock
from redqueen.ledger.members import adapter_name
from redqueen.ledger.opening import check_resumable
from redqueen.ledger.people import Inbox
from redqueen.ledger.rows import birth_row, person_row, rating_row, step_rows
from redqueen.ledger.runs import free_folder, new_folder
from redqueen.ledger.snapshots import write_snapshot
from redqueen.ledger.store import FILE, refuse_what_is_there
from redqueen.records import Attempt, Birth, Problem
from redqueen.stages.evolve.migrate import migrate

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step came to. It is in the ledger when you get it."""

    number: int
    """From 1."""
    seconds: float
    """How long it took."""
    worlds: tuple[StepState, ...]
    """What happened in each world that still plays."""

    @property
    def metrics(self) -> dict[str, float]:
        """By name, such as `solve/pass_rate`; means over the worlds where there are several."""
        return mean_metrics(self.worlds)

    @property
    def problems(self) -> list[Problem]:
        """The valid problems that teachers posed."""
        return [problem for state in self.worlds for problem in state.problems]

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts of the step, at these problems."""
        return [attempt for state in self.worlds for attempt in state.attempts]

    @property
    def births(self) -> list[Birth]:
        """Children that took the place of others in this step."""
        return [birth for state in self.worlds for birth in state.births]


class Run:
    """Worlds on one engine and one sandbox, which the run owns: use it as a context.

    Iterating plays steps. Evaluation and trackers are calls of your own: `redqueen.evaluate(run,
    suite)` and `redqueen.track(run)`; `redqueen run` makes them as the settings say.
    """

    def __init__(self, parts: Parts, stack: ExitStack) -> None:
        self.config: Config = parts.config
        self.worlds: list[World] = parts.worlds
        self.ports: Ports = parts.ports
        self.ledger, self.checkpoints = parts.ledger, parts.checkpoints
        self.mixes_worlds = parts.mixes_worlds
        self.inbox = Inbox(self.ledger.folder)
        """What people do with it."""
        self.step = 0
        """The last step that is whole."""
        self._stack = stack
        self._saved = 0
        self._writer = BackgroundWriter(self.checkpoints)
        self._placements = PlacementLog(self.engine)

    @classmethod
    def create(
        cls, config: Config | Sequence[Arm], folder: str | Path | None = None, name: str = "run"
    ) -> Self:
        """A new run. `config`: of one world, or (arm, config) of each world of a study; `folder`:
        where it is kept; without one, `runs/NAME-1`, `-2`, ..., where `name` is NAME."""
        arms = [("run", config)] if isinstance(config, Config) else list(config)
        place = None if folder is None else Path(folder)
        if place is not None:
            refuse_what_is_there(place)
        with ExitStack() as stack:
            parts = build_run(stack, arms, lambda: place or new_folder(Path("runs"), name))
            run = cls(parts, stack)
            run.begin()
            run._stack = stack.pop_all()
        return run

    @classmethod
    def resume(cls, folder: str | Path, steps: int | None = None, base: str | None = None) -> Self:
        """A run that was stopped or killed, in this `folder`, at its newest checkpoint; `steps`:
        to play further than it was to go; `base`: where its base is now, if it moved."""
        folder = Path(folder)
        if not (folder / FILE).exists():
            raise ConfigError(f"there is no run in {folder}: `redqueen runs` lists those there are")
        check_resumable(folder)
        with ExitStack() as stack:
            stack.enter_context(RunLock(folder))
            parts = rebuild_run(stack, folder, steps, base)
            run = cls(parts, stack)
            run.restore()
            run.ledger.add_tables(parts.changes)
            run._stack = stack.pop_all()
        return run

    @classmethod
    def fork(
        cls,
        source: str | Path,
        folder: str | Path | None = None,
        settings: Sequence[str] = (),
    ) -> Self:
        """A new run that begins after the newest checkpoint of another one, `source`, with other
        `settings` (`a.b=c`), in `folder` or beside the other: `NAME-fork-1`, `-2`, ..."""
        first = Path(source)
        place = Path(folder) if folder else free_folder(first.resolve())
        fork_run(first, place, settings)
        return cls.resume(place)

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return self.ledger.folder

    @property
    def engine(self) -> Engine:
        """What samples and trains its members."""
        return self.ports.engine

    @property
    def stop_reason(self) -> str:
        """Why it ended early: none of its worlds has anything left to learn from. Else empty."""
        if not all(world.stopped for world in self.worlds):
            return ""
        return "\n".join(dict.fromkeys(world.stopped for world in self.worlds))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.save_last()
        finally:
            try:
                self.close()
            except StorageError as failure:
                if kind is None:
                    raise
                log.error("%s", failure)  # beside what has ended the run

    def close(self) -> None:
        """Give back the engine, the sandbox and the lock, when everything is on the disk."""
        try:
            self._writer.close()
        finally:
            self._stack.close()

    def __iter__(self) -> Iterator[StepResult]:
        """The steps that are left, each as soon as it is whole."""
        while self.step < self.config.steps and not self.stop_reason:
            yield self.play_step()

    def play_step(self) -> StepResult:
        """The next step."""
        if self.step >= self.config.steps or self.stop_reason:
            why = self.stop_reason or f"all {self.config.steps} steps are played"
            raise RedQueenError(f"the run in {self.folder} is over: {why}")
        self._writer.check()
        started, step = time.monotonic(), self.step + 1
        self.ports.timings.clear()
        states = [StepState(world, step) for world in self.worlds if not world.stopped]
        actions = self.inbox.take(step)
        for state in states:
            take_up(state, actions)
        for group in group_worlds(states, self.mixes_worlds):
            play_step(group, self.ports)
        migrate(states, self.engine)
        if isinstance(self.engine, Measured):
            states[0].metrics |= self.engine.metrics()
        if self._writer.seconds:
            states[0].metrics["time/checkpoint/write_s"] = self._writer.seconds
        for state in states:
            state.world.stopped = why_stop(state)
        self._write(step, states, leave_to_nobody(states, actions))
        self.ledger.add(
            "timings",
            [
                {"step": step, "stage": stage, "seconds": seconds, "waited_s": waited}
                for stage, (seconds, waited) in self.ports.timings.items()
            ],
        )
        return StepResult(step, time.monotonic() - started, tuple(states))

    def _write(
        self, step: int, states: Sequence[StepState], ignored: Sequence[PersonResult]
    ) -> None:
        config = self.config.ledger
        with self.ports.timed("ledger"):
            tables = [step_rows(state) for state in states]
            rows = {name: [row for table in tables for row in table[name]] for name in tables[0]}
            rows["placements"] = self._placements.changes()
            rows["people"] += [{"world": one.action.world, **person_row(one)} for one in ignored]
            self.ledger.write(step, rows)
            self.step = step
            # before the checkpoint: a step that has one is not played again
            if config.snapshot_every and step % config.snapshot_every == 0:
                self._snapshot()
        last = step == self.config.steps or bool(self.stop_reason)
        full = isinstance(self.engine, BlockEngine) and self.engine.wants_checkpoint
        with self.ports.timed("checkpoint"):
            if last:
                self.save()
            elif step % config.checkpoint_every == 0 or full:
                self._save()
        if last:
            self.record_end(self.stop_reason or "all steps played")

    def record_end(self, why: str) -> None:
        """Write down `why` no more steps are played."""
        stopped = [world for world in self.worlds if world.stopped and len(self.worlds) > 1]
        worlds = [{"name": f"ended/{w.number}", "value": w.stopped} for w in stopped]
        self.ledger.add("run", [{"name": "ended", "value": why}, *worlds])

    def begin(self) -> None:
        """Write down what is there before the first step, and warm up for it. A kill before the
        checkpoint begins all of it anew."""
        rows: dict[str, list[Row]] = {"births": [], "ratings": [], "metrics": []}
        for world in self.worlds:
            for member in world.members:
                rows["births"].append({"world": world.number, **birth_row(Birth(member))})
                rows["ratings"].append({"world": world.number, **rating_row(member)})
            for name, value in warm_up(world, self.ports).items():
                rows["metrics"].append({"world": world.number, "name": name, "value": value})
        self.ledger.write(0, rows)
        self.save()

    def restore(self) -> None:
        """Go back to the newest checkpoint that is whole."""
        last = self.ledger.last_step()
        checkpoint = self.checkpoints.newest(at_most=last)
        if checkpoint is None and last > 0:
            raise RedQueenError(
                f"no checkpoint of the run in {self.folder} can be read, so it cannot go on. "
                "Its ledger is intact: `redqueen report` and `redqueen export --problems` still "
                "work."
            )
        if checkpoint is None:  # killed before the first checkpoint: nothing was played yet
            self.checkpoints.sweep()
            self.ledger.truncate(-1)
            self.begin()
            return
        for world, snapshot in zip(self.worlds, checkpoint.state["worlds"], strict=True):
            world.restore(snapshot)
        self.engine.load(checkpoint.folder, self._adapter_names())
        note_losses(checkpoint, self.worlds, self.ledger)
        self.checkpoints.sweep()
        if last > checkpoint.step:  # whatever people do from now on, those steps will not take it
            self.inbox.mark(last)
        self.ledger.truncate(checkpoint.step)
        self.step = self._saved = checkpoint.step

    def save(self) -> None:
        """Take a checkpoint. It is on the disk when this returns."""
        self._save()
        self._writer.wait()

    def save_last(self) -> None:
        """Where the last step has no checkpoint, take one: it is not to be played again."""
        if self._saved < self.step:
            self.save()

    def _save(self) -> None:
        """Take a checkpoint; one that is written beside the next step may not be there yet."""
        self._writer.wait()  # the copies of two would take twice the memory
        state = {
            "worlds": [world.snapshot() for world in self.worlds],
            "saving": asdict(saving_of(self.engine)),
        }
        names, engine = self._adapter_names(), self.engine
        background = self.config.ledger.background
        beside = engine.base.on_gpu if background == "auto" else background
        if beside and isinstance(engine, TakesSnapshots):
            self._writer.submit(self.step, engine.snapshot(names), state)
        else:
            engine.checkpointed(
                self.checkpoints.save(self.step, lambda folder: engine.save(folder, names), state)
            )
        self._saved = self.step

    def _snapshot(self) -> None:
        """Everybody's weights, and who they are; the same if the step is played again."""
        members = (
            (world.number, member, self.engine.read(world.slot(member)))
            for world in self.worlds
            for member in world.members
        )
        base = self.engine.base
        with explain_disk(self.folder / "snapshots"):
            write_snapshot(
                self.folder, self.step, members, base=base.name, fingerprint=base.fingerprint
            )

    def _adapter_names(self) -> dict[int, str]:
        """The folder of each adapter slot in a checkpoint, such as 0/S2.30."""
        return {
            world.slot(member): adapter_name(world.number, member.id)
            for world in self.worlds
            for member in (*world.members, *(past.member for past in world.hall_of_fame))
        }
