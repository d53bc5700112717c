"""A model of a step on many workers: from seconds of one block, how long a step takes on so many
workers with so many members, and what keeps it from being faster.

An engine call of a step ends when its slowest worker has done its blocks, one after another; blocks
differ, because completions differ in length. On machines whose workers share cores it takes at
least the CPU seconds of all, over the cores. What the driver does between the calls is done by one
process, whatever the number of workers: that is where the curve bends in the end.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import NamedTuple

from redqueen.engine.blocks.crew import spread

_DRAWS = 200
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


def fit(steps: Sequence[tuple[float, Sequence[Observed]]], block_members: int) -> StepModel:
    """From steps of one worker: seconds of each, and its engine calls."""
    blocks = max(len(call.blocks) for _, calls in steps for call in calls)
    names = dict.fromkeys(call.name for _, calls in steps for call in calls)
    phases = [
        _fit_phase(name, [[c for c in calls if c.name == name] for _, calls in steps], blocks)
        for name in names
    ]
    between = fmean(seconds - sum(call.seconds for call in calls) for seconds, calls in steps)
    return StepModel(tuple(phases), max(0.0, between) / blocks, block_members)


def _fit_phase(name: str, steps: Sequence[Sequence[Observed]], blocks: int) -> Phase:
    own = [
        sum(c.blocks.get(block, 0.0) for c in calls) for calls in steps for block in range(blocks)
    ]
    work = [sum(sum(call.blocks.values()) for call in calls) for calls in steps]
    wall = [sum(call.seconds for call in calls) for calls in steps]
    cpu = [sum(call.cpu_s for call in calls) for calls in steps]
    mean = fmean(own)
    return Phase(
        name,
        mean,
        pstdev(own) / mean if mean else 0.0,
        max(0.0, fmean(cpu) - fmean(work)) / blocks,
        max(0.0, fmean(wall) - fmean(work)) / blocks,
    )


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
    own: dict[int, list[int]] = {worker: [] for worker in range(used)}
    for block, worker in spread(blocks, range(used), {}).items():
        own[worker].append(block)
    driver = model.driver_s * blocks
    lost = {"driver": driver, "slowest worker": 0.0, "blocks": 0.0, "cores": 0.0}
    total = driver
    for phase in model.phases:
        slowest, shared = [], []
        for _ in range(_DRAWS):
            seconds = [_draw(rng, phase) for _ in range(blocks)]
            slowest.append(max(sum(seconds[block] for block in has) for has in own.values()))
            shared.append((sum(seconds) + phase.beside_s * blocks) / cores if cores else 0.0)
        took = fmean(max(pair) for pair in zip(slowest, shared, strict=True))
        even = phase.block_s * blocks / workers
        most = phase.block_s * max(map(len, own.values()))
        lost["driver"] += phase.driver_s * blocks
        lost["blocks"] += most - even
        lost["slowest worker"] += max(0.0, fmean(slowest) - most)
        lost["cores"] += max(0.0, took - fmean(slowest))
        total += took + phase.driver_s * blocks
    return total, lost


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
