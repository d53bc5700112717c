"""A model of a step on many workers: from seconds of one block, how long a step takes on so many
workers with so many members, and what keeps it from being faster.

An engine call of a step ends when its slowest worker has done its blocks, one after another; blocks
differ, because completions differ in length. Before training lengths are known, and blocks are
exchanged where that saves more than it takes. On machines whose workers share cores a call
takes at least the CPU seconds of all, over the cores, and cores that are all busy are slower than
one alone. What the driver does between the calls is done by one process, whatever the number of
workers: that is where the curve bends in the end. A part of it, such as the transaction of a step,
does not grow with the members either.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from redqueen.engine.blocks.balance import Balancer, longest
from redqueen.engine.blocks.crew import spread

_DRAWS = 200
_TICKS_S = 0.2
GOOD = 0.8
"""Efficiency below which the curve is said to bend."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The engine calls of a step that have one name."""

    name: str
    block_s: float
    """Seconds of one block, the mean."""
    skew: float
    """How much blocks differ: standard deviation over mean."""
    beside_s: float = 0.0
    """CPU seconds of driver and sandbox for one block, while workers compute."""
    driver_s: float = 0.0
    """Seconds for one block in which all workers wait for the driver."""


@dataclass(frozen=True, slots=True)
class StepModel:
    phases: tuple[Phase, ...]
    driver_s: float
    """Seconds between engine calls, for one block: ledger, archive, what is left of the checks."""
    block_members: int
    """Members of one block."""
    fixed_s: float = 0.0
    """Seconds of a step that do not depend on the number of blocks."""
    together: float = 1.0
    """Where workers share a machine's cores: seconds of a block beside others, against alone."""
    move_s: float | None = None
    """Seconds that a block takes from one worker to another; where nobody knows, none moves."""


@dataclass(frozen=True, slots=True)
class Prediction:
    workers: int
    members: int
    step_s: float
    efficiency: float
    """Against one worker: 1 when twice the workers take half the time."""
    limit: str
    """What costs most of what is lost: `driver`, `slowest worker`, `blocks`, or `cores`."""


class Observed(NamedTuple):
    """One engine call as it was."""

    name: str
    seconds: float
    blocks: Mapping[int, float]
    """Seconds of each block."""
    cpu_s: float
    """Of all programs of the machine meanwhile."""
    worked_s: float = math.nan
    """CPU seconds of the workers, where they are known. On a core that a worker shares with driver
    and sandbox, a block takes longer than these."""


def fit(
    steps: Sequence[tuple[float, Sequence[Observed]]],
    block_members: int,
    fixed_s: float = 0.0,
    together: float = 1.0,
    move_s: float | None = None,
) -> StepModel:
    """From steps of one worker: seconds of each, and its engine calls. Calls of one name are apart:
    all workers wait at the end of each. A call of a single block is not divided among workers, and
    so it is the driver's."""
    blocks = max(len(call.blocks) for _, calls in steps for call in calls)
    phases: dict[str, list[Observed]] = {}
    between = []
    for seconds, calls in steps:
        names: list[str] = []
        divided = [call for call in calls if len(call.blocks) > 1 or blocks == 1]
        for call in divided:
            names.append(call.name)
            phases.setdefault(f"{call.name} {names.count(call.name)}", []).append(call)
        between.append(seconds - sum(call.seconds for call in divided))
    return StepModel(
        tuple(_fit_phase(name, calls, blocks, len(steps)) for name, calls in phases.items()),
        max(0.0, fmean(between) - fixed_s) / blocks,
        block_members,
        fixed_s,
        together,
        move_s,
    )


def _fit_phase(name: str, calls: Sequence[Observed], blocks: int, steps: int) -> Phase:
    """Means over steps, also over those that had no such call."""
    own = [_work_of_blocks(call) for call in calls]
    waited = [max(0.0, call.seconds - sum(call.blocks.values())) for call in calls]
    beside = [
        max(0.0, call.cpu_s - sum(work) - wait)
        for call, work, wait in zip(calls, own, waited, strict=True)
    ]
    skews = [stdev(work) / fmean(work) for work in own if len(work) > 1 and any(work)]
    count = blocks * steps
    return Phase(
        name,
        sum(sum(work) for work in own) / count,
        fmean(skews) if skews else 0.0,
        sum(beside) / count,
        sum(waited) / count,
    )


def _work_of_blocks(call: Observed) -> list[float]:
    """Seconds of each block without what else was done on the worker's core."""
    total = sum(call.blocks.values())
    # ticks are too coarse for short calls
    share = 1.0 if math.isnan(call.worked_s) or total < _TICKS_S else call.worked_s / total
    return [seconds * min(1.0, share) for seconds in call.blocks.values()]


def predict(model: StepModel, workers: int, members: int, cores: int = 0) -> Prediction:
    """`cores`: that workers, driver and sandbox share; 0: every worker has a device of its own."""
    blocks = max(1, members // model.block_members)
    step, lost = _simulate(model, workers, blocks, cores)
    alone, _ = _simulate(model, 1, blocks, cores)
    limit = max(lost, key=lambda name: lost[name])
    return Prediction(workers, members, step, alone / (workers * step), limit)


def _simulate(
    model: StepModel, workers: int, blocks: int, cores: int
) -> tuple[float, dict[str, float]]:
    """Seconds of a step, the mean over draws, and how many of them go where."""
    rng = random.Random(f"{workers} {blocks}")
    used = min(workers, blocks)
    places = spread(blocks, range(used), {})
    driver = model.driver_s * blocks + model.fixed_s
    slower = model.together if cores and used > 1 else 1.0
    lost = {"driver": driver, "slowest worker": 0.0, "blocks": 0.0, "cores": 0.0}
    total = driver
    for phase in model.phases:
        slowest, shared = [], []
        for _ in range(_DRAWS):
            seconds = {block: _draw(rng, phase) * slower for block in range(blocks)}
            known = phase.name.startswith("accumulate")
            slowest.append(_longest(seconds, places, model.move_s if known else None))
            work = sum(seconds.values()) + phase.beside_s * blocks * slower
            shared.append(work / cores if cores else 0.0)
        took = fmean(max(pair) for pair in zip(slowest, shared, strict=True))
        even = phase.block_s * blocks / workers
        most = phase.block_s * math.ceil(blocks / used)
        lost["driver"] += phase.driver_s * blocks
        lost["blocks"] += most - even
        lost["slowest worker"] += max(0.0, fmean(slowest) - most)
        lost["cores"] += max(0.0, took - fmean(slowest))
        total += took + phase.driver_s * blocks
    return total, lost


def _longest(
    seconds: Mapping[int, float], places: Mapping[int, int], move_s: float | None
) -> float:
    """Of the slowest worker, after blocks have been exchanged where that is worth it."""
    if move_s is None:
        return longest(seconds, places)
    better = Balancer(bytes_each=move_s, bytes_per_s=1.0, token_s=1.0).place(seconds, places)
    moved = sum(better[block] != worker for block, worker in places.items())
    return longest(seconds, better) + (moved * move_s if moved else 0.0)


def _draw(rng: random.Random, phase: Phase) -> float:
    """Log-normal: lengths are, and seconds follow them."""
    if not phase.skew or not phase.block_s:
        return phase.block_s
    variance = math.log(1 + phase.skew**2)
    return rng.lognormvariate(math.log(phase.block_s) - variance / 2, math.sqrt(variance))


def curve(model: StepModel, members: int, most: int = 64, cores: int = 0) -> list[Prediction]:
    """For 1, 2, 4, ... workers."""
    counts = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return [predict(model, workers, members, cores) for workers in counts]


def bend(predictions: Sequence[Prediction]) -> Prediction | None:
    """The first that is no longer efficient."""
    return next((one for one in predictions if one.efficiency < GOOD), None)
