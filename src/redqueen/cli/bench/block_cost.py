"""`redqueen bench blocks`: what blocks cost on one device. The default of `engine.block` follows
from it.

A study is played as one block a world and as one block of everything, a step of each in turns. Then
the same requests and samples go to an engine directly and through the code that splits calls into
blocks, with one block of everything: what that code costs by itself.
"""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.table import Table

from redqueen.cli.bench.workload import Workload, sample_requests, time_call
from redqueen.cli.console import VisibleConsole, note, note_others, print_table
from redqueen.cli.options import Device, Json, Settings
from redqueen.config.engine import EngineConfig
from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.worker import Inline
from redqueen.engine.cpu_load import LoadMeter
from redqueen.engine.protocol import (
    Engine,
    EngineSpec,
    OptimizerSettings,
    SampleRequest,
    SamplingParams,
    TrainSample,
    create_engine,
)
from redqueen.models.base import pick_device
from redqueen.stages.update.losses import Reinforce, bind_loss

WAYS = ("world", "all")
_MEANING = {
    "blocks_over_one": "seconds of a step as one block a world / as one block of everything",
    "engine_blocks_over_one": "the same, of sampling and training alone",
    "sample_through_over_direct": "one block of everything: sampling through blocks / without",
    "train_through_over_direct": "the same for training",
}
_SETTINGS = ("evolve.every=0", "evaluate.suite=", "ledger.checkpoint_every=1000", "steps=1000")
"""No step has an exam or a checkpoint that the others do not have."""
_ENGINE_S = ("time/sample/prefill_s", "time/sample/decode_s", "time/update/accumulate_s")
_SAMPLING, _LOSS = SamplingParams(temperature=1.0), bind_loss(Reinforce())


def blocks(
    worlds: Annotated[int, typer.Option(min=2, help="Of the study: so many blocks.")] = 8,
    device: Device = "auto",
    steps: Annotated[int, typer.Option(min=1, help="Of each way, after a warm-up.")] = 6,
    rounds: Annotated[int, typer.Option(min=1, help="Of calls without a study.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0, help="With fewer steps if they would take longer than this.")
    ] = 80.0,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """What it costs to compute the worlds of a study in blocks of their own, on one device."""
    load, where = LoadMeter(with_children=True), pick_device(device)
    on_gpu = where.type == "cuda"
    own = [*_SETTINGS, f"device={where}", "engine.type=torch", *(settings or [])]
    steps_s, engine_s = _play("pawn-gpu" if on_gpu else "pawn-cpu", worlds, steps, seconds, own)
    through = _time_through(str(where), rounds, prompts=2048 if on_gpu else 16)
    ratio = _ratio(steps_s["world"], steps_s["all"])
    result = BlockBench(
        device=through.hardware,
        worlds=worlds,
        steps=len(steps_s["all"]),
        step_s={way: round(median(steps_s[way]), 3) for way in WAYS},
        blocks_over_one=ratio,
        engine_blocks_over_one=_ratio(engine_s["world"], engine_s["all"]),
        sample_through_over_direct=through.sample,
        train_through_over_direct=through.train,
        default="all" if on_gpu else "world",
        fastest="all" if ratio > 1 else "world",
        other_programs_cores=round(load.others(), 2),
    )
    if as_json:
        print(json.dumps(asdict(result)))
    else:
        _show(result)
    note_others(result.other_programs_cores)


@dataclass(frozen=True, slots=True)
class BlockBench:
    device: str
    worlds: int
    steps: int
    step_s: dict[str, float]
    """The median, by what a block is."""
    blocks_over_one: float
    engine_blocks_over_one: float
    sample_through_over_direct: float
    train_through_over_direct: float
    default: str
    """What `engine.block = "auto"` means on this device, with one process."""
    fastest: str
    """What a block should be by this figure."""
    other_programs_cores: float


Seconds = dict[str, list[float]]


def _play(
    recipe: str, worlds: int, steps: int, most_s: float, settings: Sequence[str]
) -> tuple[Seconds, Seconds]:
    """Seconds of every step but the first, and those of its sampling and training."""
    whole: Seconds = {way: [] for way in WAYS}
    engine: Seconds = {way: [] for way in WAYS}
    started = time.monotonic()
    with ExitStack() as stack:
        runs = {}
        for way in WAYS:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            own = [*settings, f"engine.block={way}"]
            arms = [(f"seed{n}", load_config(recipe, [*own, f"seed={n}"])) for n in range(worlds)]
            runs[way] = stack.enter_context(Run.create(arms, Path(folder, "run")))
        for number in range(steps + 1):
            note(f"step {number} of {steps}" if number else "a warm-up")
            began = time.monotonic()
            for way in WAYS if number % 2 else reversed(WAYS):
                step = runs[way].play_step()
                if number:
                    whole[way].append(step.seconds)
                    metrics = step.worlds[0].metrics
                    engine[way].append(sum(metrics.get(name, 0.0) for name in _ENGINE_S))
            now = time.monotonic()
            if number and now + (now - began) > started + most_s:
                break
    return whole, engine


@dataclass(frozen=True, slots=True)
class Through:
    hardware: str
    sample: float
    train: float


def _time_through(device: str, rounds: int, prompts: int) -> Through:
    """The same calls by an engine, and by that engine as the only worker of a BlockEngine."""
    members = 8
    config = EngineConfig(block="all", max_num_seqs=4096, max_prefill_tokens=131_072)
    direct: Any = create_engine("torch", EngineSpec("pawn", members, config=config, device=device))
    through = BlockEngine(BlockLayout((members,)), [Inline(direct)], direct.tokenizer)
    workload = Workload(members, prompts, 8, 64, 8, 160, 4, rounds)
    requests = sample_requests(workload, members)
    note(f"{len(requests)} completions, directly and through blocks")
    samples = _as_samples(requests, direct)
    ways: dict[str, Engine] = {"direct": direct, "through": through}
    sampled: Seconds = {way: [] for way in ways}
    trained: Seconds = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way, engine in ways.items():
            calls: tuple[tuple[Seconds, Callable[[], object]], ...] = (
                (sampled, partial(engine.sample, requests, _SAMPLING)),
                (trained, partial(_train, engine, samples)),
            )
            for seconds, call in calls:
                elapsed = time_call(call, pick_device(device))
                if number:
                    seconds[way].append(elapsed)
    through.close()
    return Through(
        direct.base.hardware,
        _ratio(sampled["through"], sampled["direct"]),
        _ratio(trained["through"], trained["direct"]),
    )


def _as_samples(requests: Sequence[SampleRequest], engine: Engine) -> list[TrainSample]:
    completions = engine.sample(requests, _SAMPLING)
    return [
        TrainSample(request.slot, request.prompt, done.tokens, 1.0, done.logprobs)
        for request, done in zip(requests, completions, strict=True)
    ]


def _train(engine: Engine, samples: Sequence[TrainSample]) -> None:
    stats = engine.accumulate(samples, _LOSS)
    engine.step(dict.fromkeys(stats.slots, OptimizerSettings(learning_rate=1e-6)))


def _ratio(left: Sequence[float], right: Sequence[float]) -> float:
    """The median over rounds."""
    return round(median(a / b for a, b in zip(left, right, strict=True)), 3)


def _show(result: BlockBench) -> None:
    title = f"{result.worlds} Pawn worlds, {result.steps} steps of each way, {result.device}"
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("meaning")
    values = asdict(result)
    for name, meaning in _MEANING.items():
        table.add_row(name, f"{values[name]:.3f}", meaning)
    console = VisibleConsole()
    print_table(table, console)
    console.print(
        f"A block of everything: {result.step_s['all']:.2f} s a step; of a world: "
        f"{result.step_s['world']:.2f} s. Default here: {result.default}; faster: {result.fastest}."
    )
