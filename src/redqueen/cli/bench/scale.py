"""`redqueen bench scale`: how much faster several workers are, measured here and predicted for
more.

The same study is played with 1, 2 and 4 workers in turns, so that a machine that gets slower
meanwhile does not decide. From the seconds of blocks with one worker a model predicts all of them,
and the curve to 64 GPUs. Every worker computes with one thread: two workers on two cores against
one on one core.
"""

import importlib.util
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.bench.rows import make_columns, pipe_ms, ray_ms
from redqueen.cli.bench.scale_from import model_of_bench, model_of_run
from redqueen.cli.bench.scale_model import (
    Observed,
    Prediction,
    StepModel,
    bend,
    curve,
    fit,
    predict,
)
from redqueen.cli.console import note, note_others
from redqueen.cli.options import Json, Settings
from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.cpu_load import LoadMeter, idle_seconds, own_cores
from redqueen.errors import ConfigError
from redqueen.ledger.store import digest

_BLOCKS, _BLOCK_MEMBERS = 4, 4
_SETTINGS = (
    "base=pawn",
    "device=cpu",
    f"population.teachers={_BLOCK_MEMBERS // 2}",
    f"population.students={_BLOCK_MEMBERS // 2}",
    "evaluate.suite=",
    "engine.type=processes",
    "ledger.checkpoint_every=100",
)
_LISTEN_S = 1.0
"""To hear whether other programs run, before our own do."""
_BENDS = {
    "driver": "what the one driver does between engine calls",
    "slowest worker": "waiting for the slowest worker: blocks differ",
    "blocks": "too few blocks for so many workers: choose a smaller engine.block",
    "cores": "workers share the cores",
}


def scale(
    workers: Annotated[
        str, typer.Option(help="Numbers of CPU workers to measure, such as 1,2,4.")
    ] = "1,2,4",
    steps: Annotated[int, typer.Option(min=2, help="Of each study; the first is a warm-up.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Times each is played, in turns.")] = 2,
    run: Annotated[
        Path | None,
        typer.Option(help="Measure nothing: predict from the timings of this run, on any device."),
    ] = None,
    engine: Annotated[
        Path | None,
        typer.Option(help="Measure nothing: predict from what `bench engine --json` printed."),
    ] = None,
    members: Annotated[int, typer.Option(min=1, help="Of the population on the curve.")] = 1024,
    gpus: Annotated[int, typer.Option(min=1, help="Where the curve ends.")] = 64,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """A step on several workers, measured and predicted, and the curve to many GPUs."""
    listening = LoadMeter()
    time.sleep(_LISTEN_S)
    others = round(listening.others(), 2)
    measures = run is None and engine is None
    measured: list[Measured] = []
    if run is not None:
        model = model_of_run(run)
    elif engine is not None:
        model = model_of_bench(engine)
    else:
        model, measured = _measure(_read_counts(workers), steps, rounds, settings or [])
    predictions = curve(model, members, gpus)
    rows_ms = _time_rows() if measures else {}
    result = {
        "other_programs_cores": others,
        "model": asdict(model),
        "measured": [asdict(one) for one in measured],
        "rows_ms": rows_ms,
        "curve": [asdict(one) for one in predictions],
    }
    if as_json:
        print(json.dumps(result))
    else:
        _show(measured, predictions, rows_ms)
    if measures:
        note_others(others)


@dataclass(frozen=True, slots=True)
class Measured:
    workers: int
    step_s: float
    predicted_s: float
    error_frac: float
    speedup: float
    """Against one worker."""
    same_records: bool
    """As with one worker: the digest is equal."""


def _read_counts(text: str) -> list[int]:
    try:
        counts = sorted({int(word) for word in text.split(",")} | {1})
    except ValueError:
        counts = [0]
    if counts[0] < 1 or counts[-1] > _BLOCKS:
        raise ConfigError(
            f"--workers={text}: numbers from 1 to {_BLOCKS}, which is how many blocks the study "
            "has, with commas between them"
        )
    return counts


def _measure(
    counts: Sequence[int], steps: int, rounds: int, settings: Sequence[str]
) -> tuple[StepModel, list[Measured]]:
    """Also a model, from the steps with one worker."""
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    digests: dict[int, set[str]] = {count: set() for count in counts}
    alone = []
    for number in range(rounds):
        for count in counts:
            note(f"round {number + 1} of {rounds}: {count} workers, {steps} steps")
            played, records = _play(count, [*settings, f"steps={steps}"])
            seconds[count] += [step_s for step_s, _ in played]
            digests[count].add(records)
            alone += played if count == 1 else []
    model = fit(alone, _BLOCK_MEMBERS)
    members, cores = _BLOCKS * _BLOCK_MEMBERS, len(own_cores())
    rows = []
    for count in counts:
        step_s = median(seconds[count])
        predicted = predict(model, count, members, cores).step_s
        ratios = [a / b for a, b in zip(seconds[1], seconds[count], strict=True)]
        same = digests[count] == digests[1] and len(digests[1]) == 1
        rows.append(
            Measured(count, step_s, predicted, predicted / step_s - 1, median(ratios), same)
        )
    return model, rows


def _play(workers: int, own: Sequence[str]) -> tuple[list[tuple[float, list[Observed]]], str]:
    """Every step after the first, with its engine calls; and the digest."""
    settings = [*_SETTINGS, *own, f"engine.workers={workers}"]
    arms = [
        (f"seed{seed}", load_config("pawn-cpu", [*settings, f"seed={seed}"]))
        for seed in range(_BLOCKS)
    ]
    played: list[tuple[float, list[Observed]]] = []
    with tempfile.TemporaryDirectory() as name:
        with Run.create(arms, Path(name, "run")) as run:
            assert isinstance(run.engine, BlockEngine)
            for _ in range(run.config.steps):
                run.engine.watch = watch = _Watch()
                played.append((run.play_step().seconds, watch.calls))
        return played[1:], digest(Path(name, "run"))


class _Watch:
    """Notes engine calls, and what the machine's cores did meanwhile."""

    def __init__(self) -> None:
        self.calls: list[Observed] = []
        self._started, self._idle = 0.0, 0.0

    def begins(self) -> None:
        self._started, self._idle = time.monotonic(), _idle()

    def ends(self, name: str, seconds: Mapping[int, float]) -> None:
        elapsed, idle = time.monotonic() - self._started, _idle() - self._idle
        busy = len(own_cores()) * elapsed - idle
        self.calls.append(Observed(name, elapsed, dict(seconds), busy))


def _idle() -> float:
    seconds = idle_seconds()
    return sum(seconds[core] for core in own_cores() & {*seconds})


def _time_rows() -> dict[str, float]:
    columns = make_columns()
    ways = {"pipe": round(pipe_ms(columns), 1)}
    if importlib.util.find_spec("ray"):
        ways["ray"] = round(ray_ms("local"), 1)
    return ways


def _show(
    measured: Sequence[Measured], predictions: Sequence[Prediction], rows_ms: Mapping[str, float]
) -> None:
    console = Console()
    if measured:
        console.print(_measured_table(measured))
    console.print(_curve_table(predictions))
    bent = bend(predictions)
    if bent is None:
        console.print(f"It does not bend before {predictions[-1].workers} GPUs.")
    else:
        console.print(f"It bends at {bent.workers} GPUs: {_BENDS[bent.limit]}.")
    for way, milliseconds in rows_ms.items():
        console.print(f"4,096 completions of 256 tokens through {way}: {milliseconds:.1f} ms")


def _measured_table(measured: Sequence[Measured]) -> Table:
    title = f"Pawn, {_BLOCKS} blocks of {_BLOCK_MEMBERS} members, {len(own_cores())} cores"
    table = Table(title=title, title_justify="left")
    for column in ("workers", "step", "predicted", "off by", "speed-up", "records"):
        table.add_column(column, justify="right")
    for row in measured:
        table.add_row(
            str(row.workers),
            f"{row.step_s:.2f} s",
            f"{row.predicted_s:.2f} s",
            f"{row.error_frac:+.0%}",
            f"{row.speedup:.2f}x",
            "equal" if row.same_records else "DIFFERENT",
        )
    return table


def _curve_table(predictions: Sequence[Prediction]) -> Table:
    title = f"predicted: {predictions[0].members:,} members, a device for every worker"
    table = Table(title=title, title_justify="left")
    for column in ("GPUs", "step", "efficiency"):
        table.add_column(column, justify="right")
    table.add_column("most is lost to")
    for row in predictions:
        lost = row.limit if row.workers > 1 else ""
        table.add_row(str(row.workers), f"{row.step_s:.2f} s", f"{row.efficiency:.0%}", lost)
    return table
