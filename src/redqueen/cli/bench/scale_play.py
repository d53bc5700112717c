"""Plays the study of `redqueen bench scale`: the same one on several numbers of workers and cores,
a step of each in turns.

Step 3 of one is step 3 of all: the same texts, the same samples. So steps are compared one by one,
and a machine that gets slower meanwhile does not decide.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from redqueen.cli.bench.scale_model import Observed
from redqueen.cli.console import note
from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.cpu_load import LoadMeter, idle_seconds, own_cores, process_seconds
from redqueen.engine.protocol import SampleRequest, SamplingParams
from redqueen.ledger.store import digest

BLOCKS, BLOCK_MEMBERS = 4, 4
_SETTINGS = (
    "base=pawn",
    "device=cpu",
    f"population.teachers={BLOCK_MEMBERS // 2}",
    f"population.students={BLOCK_MEMBERS // 2}",
    "propose.samples=2",
    "evolve.every=0",
    "evaluate.suite=",
    "engine.type=processes",
    "engine.block=world",
    "engine.threads=1",
    "ledger.checkpoint_every=1000",
    "steps=1000",
)
"""Half of the proposals of a usual step, so that several steps fit into two minutes. No step has an
exam or a checkpoint that the others do not have."""
_ROWS, _TOKENS, _TIMES = 16, 48, 3
"""Of the call that shows how much workers slow each other down, and how often it is made."""

Steps = list[tuple[float, list[Observed]]]
"""Seconds of each step, and its engine calls."""


@dataclass(slots=True)
class Arm:
    """The study on so many workers and cores."""

    workers: int
    cores: frozenset[int]
    steps: Steps = field(default_factory=list)
    ledger_s: list[float] = field(default_factory=list)
    """Of each step: its transaction, which reaches the disk."""
    records: str = ""
    """Their digest."""

    @property
    def seconds(self) -> list[float]:
        return [seconds for seconds, _ in self.steps]


@dataclass(frozen=True, slots=True)
class Played:
    arms: dict[int, Arm]
    """By number of workers."""
    together: float
    """Seconds of a block while all cores compute, against one that is computed alone."""
    move_s: float | None
    """Seconds of a block's move from one worker to another."""
    others: float
    """Cores that other programs used meanwhile."""


def play(counts: Sequence[int], steps: int, most_s: float, settings: Sequence[str]) -> Played:
    """One worker has one core, and so have two; more share two. After two steps it ends early
    rather than take longer than `most_s`."""
    two = frozenset(sorted(own_cores())[:2])
    arms = {n: Arm(n, frozenset(sorted(two)[:1]) if n == 1 else two) for n in counts}
    started = time.monotonic()
    with on_cores(two), ExitStack() as stack:
        runs = {}
        for arm in arms.values():
            note(f"{arm.workers} workers on {len(arm.cores)} cores load the base")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()), "run")
            with on_cores(arm.cores):
                runs[arm.workers] = stack.enter_context(_open(arm, folder, settings))
        together = median(_slow_down(run.engine) for run in runs.values() if _workers(run) == 2)
        load, playing = LoadMeter(with_children=True), time.monotonic()
        for number in range(1, steps + 1):
            note(f"step {number} of {steps}")
            for arm in arms.values():
                with on_cores(arm.cores):
                    arm.steps.append(_play_step(runs[arm.workers]))
                    arm.ledger_s.append(runs[arm.workers].ports.timings["ledger"][0])
            now = time.monotonic()
            if number > 1 and now + (now - playing) / number > started + most_s:
                break
        others = load.others()
        for arm in arms.values():
            arm.records = digest(runs[arm.workers].folder)
        engines = [run.engine for run in runs.values() if _workers(run) > 1]
        moves = [one.balancer.move_s for one in engines if isinstance(one, BlockEngine)]
    return Played(arms, together, min(moves, default=None), others)


@contextmanager
def on_cores(cores: AbstractSet[int]) -> Iterator[None]:
    """Within, this thread has these cores, and so has whatever it starts."""
    before = own_cores()
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _open(arm: Arm, folder: Path, own: Sequence[str]) -> Run:
    settings = [*_SETTINGS, *own, f"engine.workers={arm.workers}"]
    worlds = [
        (f"seed{seed}", load_config("pawn-cpu", [*settings, f"seed={seed}"]))
        for seed in range(BLOCKS)
    ]
    return Run.create(worlds, folder)


def _play_step(run: Run) -> tuple[float, list[Observed]]:
    assert isinstance(run.engine, BlockEngine)
    run.engine.watch = watch = _Watch(run.engine)
    return run.play_step().seconds, watch.calls


def _workers(run: Run) -> int:
    return len(run.engine.workers) if isinstance(run.engine, BlockEngine) else 0


class _Watch:
    """Notes engine calls, and what CPU seconds the workers and the machine's cores had
    meanwhile."""

    def __init__(self, engine: BlockEngine) -> None:
        self.calls: list[Observed] = []
        self._processes = [worker.hello.pid for worker in engine.workers]
        self._started, self._idle, self._worked = 0.0, 0.0, 0.0

    def begins(self) -> None:
        self._started, self._idle, self._worked = time.monotonic(), _idle(), self._work()

    def ends(self, name: str, seconds: Mapping[int, float]) -> None:
        elapsed, idle = time.monotonic() - self._started, _idle() - self._idle
        busy = max(0.0, len(own_cores()) * elapsed - idle)
        worked = self._work() - self._worked
        self.calls.append(Observed(name, elapsed, dict(seconds), busy, worked))

    def _work(self) -> float:
        return sum(map(process_seconds, self._processes))


def _idle() -> float:
    seconds = idle_seconds()
    return sum(seconds[core] for core in own_cores() & {*seconds})


def _slow_down(engine: object) -> float:
    """Cores share memory and heat: how much slower a block is beside another."""
    assert isinstance(engine, BlockEngine)

    def seconds(blocks: Sequence[int]) -> float:
        requests = [
            SampleRequest((3,) * 32, _TOKENS, engine.layout.firsts[block], seed)
            for block in blocks
            for seed in range(_ROWS)
        ]
        times: list[float] = []
        engine.watch = watch = _Watch(engine)
        for _ in range(_TIMES):
            engine.sample(requests, SamplingParams(temperature=1.0))
            times.append(watch.calls[-1].blocks[0])
        return min(times)

    seconds([*range(BLOCKS)])  # a warm-up
    return max(1.0, seconds([0, 1]) / seconds([0]))
