"""`redqueen bench scale`: how much faster several workers are, measured here and predicted for
more.

The same study is played by one worker on one core, by two on two, and by four that share two, a
step of each in turns, so that a machine that gets slower meanwhile does not decide. From the steps
of one worker a model predicts all of them, and the curve to 64 GPUs. Every worker computes with one
thread.
"""

import importlib.util
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Literal

import typer
from rich.table import Table

from redqueen.cli.bench.rows import make_columns, pipe_ms, ray_ms
from redqueen.cli.bench.scale_from import model_of_bench, model_of_run, model_of_speed
from redqueen.cli.bench.scale_model import Prediction, StepModel, bend, curve, fit, predict
from redqueen.cli.bench.scale_play import BLOCK_MEMBERS, BLOCKS, Played, play
from redqueen.cli.console import VisibleConsole, note_others, print_table
from redqueen.cli.options import Json, Settings
from redqueen.engine.cpu_load import LoadMeter

Part = Literal["all", "workers", "rows", "simulator"]
_COUNTS = {"all": (1, 2, 4), "simulator": (1, 2, 4), "workers": (1, 2), "rows": ()}
"""Workers that are measured for a part."""
_QUIET = 0.2
"""Cores that other programs may use: with more, no figure says anything."""
_LISTEN_S = 1.0
"""To hear whether other programs run, where nothing is played."""
_BENDS = {
    "driver": "what the one driver does between engine calls",
    "slowest worker": "waiting for the slowest worker: blocks differ",
    "blocks": "too few blocks for so many workers: choose a smaller engine.block",
    "cores": "workers share the cores",
}


def scale(
    part: Annotated[
        Part,
        typer.Option(
            help="Measure only this: workers (2 on 2 cores against 1 on 1), rows (through Ray), "
            "simulator (predicted against measured)."
        ),
    ] = "all",
    steps: Annotated[int, typer.Option(min=2, help="Of the study, with each number.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0, help="With fewer steps if they would take longer than this.")
    ] = 120.0,
    run: Annotated[
        Path | None,
        typer.Option(help="Measure nothing: predict from the timings of this run, on any device."),
    ] = None,
    engine: Annotated[
        Path | None,
        typer.Option(help="Measure nothing: predict from what `bench engine --json` printed."),
    ] = None,
    speed: Annotated[
        str,
        typer.Option(
            help="Measure nothing: predict from the tokens that one block samples and trains on "
            "per second, such as 65000,63000."
        ),
    ] = "",
    tokens: Annotated[
        str, typer.Option(help="With --speed: sampled and trained tokens of a block's step.")
    ] = "50000,90000",
    block_members: Annotated[int, typer.Option(min=1, help="With --speed: of one block.")] = 8,
    skew: Annotated[
        float, typer.Option(min=0, help="With --speed: how much blocks differ, sd over mean.")
    ] = 0.1,
    driver_s: Annotated[
        float, typer.Option(min=0, help="With --speed: seconds of the driver for one block.")
    ] = 0.03,
    members: Annotated[int, typer.Option(min=1, help="Of the population on the curve.")] = 1024,
    gpus: Annotated[int, typer.Option(min=1, help="Where the curve ends.")] = 64,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """A step on several workers, measured and predicted, and the curve to many GPUs."""
    result = Result()
    if run is not None:
        result.model = model_of_run(run)
    elif engine is not None:
        result.model = model_of_bench(engine)
    elif speed:
        result.model = model_of_speed(speed, tokens, block_members, skew, driver_s)
    else:
        result = _measure(part, steps, seconds, settings or [])
    if result.model is not None and part in ("all", "simulator"):
        result.curve = tuple(curve(result.model, members, gpus))
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        _show(result)
    note_others(result.other_programs_cores)


@dataclass(frozen=True, slots=True)
class Measured:
    workers: int
    cores: int
    step_s: float
    """The mean step of one worker, times the median over steps of how much longer this took."""
    predicted_s: float
    error_frac: float
    speedup: float
    """Against one worker: the median over steps."""
    same_records: bool
    """As with one worker: the digest is equal."""


@dataclass(frozen=True, slots=True)
class Bar:
    what: str
    measured: float
    bar: float
    met: bool | None
    """None where other programs kept the machine busy: the figure says nothing."""


@dataclass(slots=True)
class Result:
    other_programs_cores: float = 0.0
    steps: int = 0
    """That were measured with each number of workers."""
    model: StepModel | None = None
    measured: tuple[Measured, ...] = ()
    rows_ms: Mapping[str, float] | None = None
    bars: tuple[Bar, ...] = ()
    curve: tuple[Prediction, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "quiet": self.other_programs_cores <= _QUIET}


def _measure(part: Part, steps: int, seconds: float, settings: Sequence[str]) -> Result:
    result = Result()
    if counts := _COUNTS[part]:
        played = play(counts, steps, seconds, settings)
        result.other_programs_cores = round(played.others, 2)
        result.steps = len(played.arms[1].steps)
        result.model, result.measured = compare(played)
    else:
        listening = LoadMeter()
        time.sleep(_LISTEN_S)
        result.other_programs_cores = round(listening.others(), 2)
    if part in ("all", "rows"):
        result.rows_ms = _time_rows()
    result.bars = tuple(_bars(part, result))
    return result


def compare(played: Played) -> tuple[StepModel, tuple[Measured, ...]]:
    """A model from the steps with one worker, and what it says about all of them. Steps are paired:
    the same step of every study has the same work."""
    alone = played.arms[1]
    ledger_s = median(alone.ledger_s)
    model = fit(alone.steps, BLOCK_MEMBERS, ledger_s, played.together, played.move_s)
    mean = fmean(alone.seconds)
    rows = []
    for arm in played.arms.values():
        ratio = median(b / a for a, b in zip(alone.seconds, arm.seconds, strict=True))
        cores, step_s = len(arm.cores), mean * ratio
        predicted = predict(model, arm.workers, BLOCKS * BLOCK_MEMBERS, cores).step_s
        same = arm.records == alone.records
        rows.append(
            Measured(arm.workers, cores, step_s, predicted, predicted / step_s - 1, 1 / ratio, same)
        )
    return model, tuple(rows)


def _bars(part: Part, result: Result) -> list[Bar]:
    quiet = result.other_programs_cores <= _QUIET
    found: list[tuple[str, float, float, bool]] = []
    if part in ("all", "workers"):
        speedup = next(row.speedup for row in result.measured if row.workers == 2)
        found.append(("2 workers on 2 cores against 1 on 1, x", speedup, 1.7, speedup >= 1.7))
    if result.rows_ms and "ray" in result.rows_ms:
        ms = result.rows_ms["ray"]
        found.append(("4,096 completions of 256 tokens through Ray, ms", ms, 20.0, ms <= 20.0))
    if part in ("all", "simulator"):
        worst = max(abs(row.error_frac) for row in result.measured)
        found.append(("simulator against measured, at most off by", worst, 0.15, worst <= 0.15))
    return [Bar(what, value, bar, met if quiet else None) for what, value, bar, met in found]


def _time_rows() -> dict[str, float]:
    columns = make_columns()
    ways = {"pipe": round(pipe_ms(columns), 1)}
    if importlib.util.find_spec("ray"):
        ways["ray"] = round(ray_ms("local"), 1)
    return ways


def _show(result: Result) -> None:
    console = VisibleConsole()
    if result.measured:
        print_table(_measured_table(result), console)
    if result.curve:
        print_table(_curve_table(result.curve), console)
        bent = bend(result.curve)
        if bent is None:
            console.print(f"It does not bend before {result.curve[-1].workers} GPUs.")
        else:
            console.print(f"It bends at {bent.workers} GPUs: {_BENDS[bent.limit]}.")
    for way, milliseconds in (result.rows_ms or {}).items():
        console.print(f"4,096 completions of 256 tokens through {way}: {milliseconds:.1f} ms")
    if result.bars:
        print_table(_bar_table(result.bars), console)


def _bar_table(bars: Sequence[Bar]) -> Table:
    table = Table(title="bars", title_justify="left")
    table.add_column("what")
    for column in ("measured", "bar", ""):
        table.add_column(column, justify="right")
    words = {True: "met", False: "MISSED", None: "machine busy"}
    for bar in bars:
        table.add_row(bar.what, f"{bar.measured:.2f}", f"{bar.bar:g}", words[bar.met])
    return table


def _measured_table(result: Result) -> Table:
    title = f"Pawn, {BLOCKS} blocks of {BLOCK_MEMBERS} members, {result.steps} steps each"
    table = Table(title=title, title_justify="left")
    for column in ("workers", "cores", "step", "predicted", "off by", "speed-up", "records"):
        table.add_column(column, justify="right")
    for row in result.measured:
        table.add_row(
            str(row.workers),
            str(row.cores),
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
