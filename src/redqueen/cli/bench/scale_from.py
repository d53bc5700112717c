"""A model of a step from what is there already. Of a run: seconds of its stages and its workers,
and how much worlds differ in the tokens that they sample. Of `bench engine`: tokens per second. Or
of figures that somebody states."""

import json
import math
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from redqueen.cli.bench.scale_model import Phase, StepModel
from redqueen.errors import ConfigError, DataError
from redqueen.ledger.store import about_of, open_to_read

_ENGINE_STAGES = ("propose", "solve", "update", "evolve")
"""In a run without workers, their seconds are the engine's."""


def model_of_run(folder: Path) -> StepModel:
    with closing(open_to_read(folder)) as connection:
        blocks = json.loads(about_of(connection).get("blocks", "[]"))
        timings = connection.execute(
            "SELECT step, stage, seconds FROM timings WHERE step > 1"
        ).fetchall()
        busy = connection.execute(
            "SELECT step, value FROM metrics WHERE name LIKE 'time/worker/%/busy_s' AND step > 1"
        ).fetchall()
        tokens = connection.execute(
            "SELECT step, world, sum(tokens) FROM (SELECT step, world, tokens FROM proposals "
            "UNION ALL SELECT step, world, tokens FROM attempts) WHERE step > 1 GROUP BY 1, 2"
        ).fetchall()
    if not timings or not blocks:
        raise DataError(f"the run in {folder} has no second step, or no timings, to predict from")
    steps = _by_step(timings, lambda row: row[2])
    compute = _by_step(busy, lambda row: row[1])
    work = {step: sum(values) for step, values in compute.items()} or {
        step: sum(row[2] for row in timings if row[0] == step and row[1] in _ENGINE_STAGES)
        for step in steps
    }
    waited = {step: max(values) for step, values in compute.items()} or work
    between = fmean(max(0.0, sum(steps[step]) - waited.get(step, 0.0)) for step in steps)
    count = len(blocks)
    phase = Phase("engine", fmean(work.values()) / count, _skew(tokens))
    return StepModel((phase,), between / count, round(sum(blocks) / count))


def model_of_bench(file: Path) -> StepModel:
    """From what `redqueen bench engine --json` printed: one block of its members. It knows nothing
    of a driver."""
    from redqueen.cli.bench.workload import Workload, sample_requests

    try:
        figures = json.loads(file.read_text())
        workload = Workload(**figures["workload"])
        speeds = figures["tokens_per_s"], figures["train_tokens_per_s"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{file} is not what `redqueen bench engine --json` prints: {error!r}"
        ) from error
    lengths = [request.max_tokens for request in sample_requests(workload, workload.members)]
    tokens, mean = sum(lengths), fmean(lengths)
    skew = pstdev(lengths) / mean / math.sqrt(len(lengths))
    phases = [Phase("sample", tokens / speeds[0], skew)]
    if speeds[1]:
        trained = tokens + workload.prompts * workload.prompt_tokens
        phases.append(Phase("accumulate", trained / speeds[1], skew))
    return StepModel(tuple(phases), 0.0, workload.members)


def model_of_speed(
    speed: str, tokens: str, members: int, skew: float, driver_s: float
) -> StepModel:
    """From tokens per second, sampled and trained, and the tokens of one block in a step."""
    (sampled_per_s, trained_per_s), (sampled, trained) = (
        _read_pair("--speed", speed),
        _read_pair("--tokens", tokens),
    )
    phases = (
        Phase("sample", sampled / sampled_per_s, skew),
        Phase("accumulate", trained / trained_per_s, skew),
    )
    return StepModel(phases, driver_s, members)


def _read_pair(option: str, text: str) -> tuple[float, float]:
    try:
        sampled, trained = map(float, text.split(","))
    except ValueError:
        sampled = trained = 0.0
    if sampled <= 0 or trained <= 0:
        raise ConfigError(
            f"{option}={text}: two numbers above 0, sampled and trained, such as 65000,63000"
        )
    return sampled, trained


def _by_step(rows: Any, value: Any) -> dict[int, list[float]]:
    steps: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        steps[row[0]].append(float(value(row)))
    return steps


def _skew(rows: Any) -> float:
    """Of tokens by world, the mean over steps."""
    steps = [values for values in _by_step(rows, lambda row: row[2]).values() if len(values) > 1]
    return fmean(pstdev(values) / fmean(values) for values in steps) if steps else 0.0
