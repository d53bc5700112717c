"""How fast the engine is, as ratios within one run: many members against one, against the bare
base, against PEFT one adapter at a time.

Every comparison runs the same rows with the same lengths, in turns, and takes the median of its
rounds. Weights may be random: what is measured does not depend on them, since rows are ended by
their limits and not by a stop token.
"""

import json
import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.bench.peft import PeftBaseline
from redqueen.cli.bench.workload import Workload, bench_base, sample_requests, time_call
from redqueen.cli.console import notes
from redqueen.cli.options import Device, Json
from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import (
    SamplingParams,
    TrainSample,
    TrainSettings,
    TrainStats,
)
from redqueen.engine.torch.engine import TorchEngine
from redqueen.models.base import pick_device

_MEANING = {
    "generate_8_over_1": "seconds to sample the same tokens from all members / from one",
    "train_8_over_1": "seconds to train on the same tokens, all members / one",
    "step_8_over_1": "both together",
    "generate_over_base": "tokens/s of all members / of the bare base in the same engine",
    "peft_generate_over_ours": "seconds of PEFT with generate(), one adapter at a time / ours",
    "peft_train_over_ours": "seconds of PEFT training, one adapter at a time / ours",
    "tokens_per_s": "tokens sampled per second, all members",
    "train_tokens_per_s": "tokens trained on per second, prompts counted once",
    "idle_frac": "share of lane steps without a row",
    "padding_frac": "share of padding in training",
    "shared_frac": "tokens that training was spared because attempts share prompts",
    "logprob_gap": "mean difference of log-probabilities, sampled and trained",
    "peak_gb": "most GPU memory",
}


def engine(
    model: Annotated[
        str,
        typer.Option(
            help="A base (pawn, a folder, ...) or a shape with random weights: 0.5b, 1.5b, 7b."
        ),
    ] = "pawn",
    device: Device = "auto",
    members: Annotated[int, typer.Option(min=2, help="Members that are compared with one.")] = 8,
    prompts: Annotated[
        int, typer.Option(min=1, help="Different prompts, for all members together.")
    ] = 16,
    attempts: Annotated[int, typer.Option(min=1, help="Completions of each prompt.")] = 8,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens of each prompt.")] = 64,
    longest: Annotated[
        int, typer.Option(min=8, help="Most tokens of a completion; most are far shorter.")
    ] = 160,
    skew: Annotated[
        int,
        typer.Option(
            min=1, help="How unequal lengths are: 2 as of Pawn's proposals, 4 as of its answers."
        ),
    ] = 4,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapters.")] = 8,
    max_num_seqs: Annotated[
        int, typer.Option(min=1, help="Sequences that are decoded together.")
    ] = 256,
    max_prefill_tokens: Annotated[
        int, typer.Option(min=1, help="Most prompt tokens in one prefill pass.")
    ] = 16_384,
    max_tokens_per_microbatch: Annotated[
        int, typer.Option(min=1, help="Most tokens in one training pass.")
    ] = 8192,
    rounds: Annotated[int, typer.Option(min=1, help="Times each way is measured.")] = 3,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Measure training, too.")
    ] = True,
    peft: Annotated[bool, typer.Option("--peft/--no-peft", help="Compare with PEFT, too.")] = True,
    as_json: Json = False,
) -> None:
    """What a population costs beside one member, the bare base, and PEFT one adapter at a time."""
    config = EngineConfig(
        max_num_seqs=max_num_seqs,
        max_prefill_tokens=max_prefill_tokens,
        max_tokens_per_microbatch=max_tokens_per_microbatch,
    )
    lora = LoraConfig(rank=rank, alpha=2 * rank)
    workload = Workload(members, prompts, attempts, prompt_tokens, 8, longest, skew, rounds, train)
    result = bench_engine(model, device, config, lora, workload, peft, notes.print)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        Console().print(_table(result))


@dataclass(frozen=True, slots=True)
class EngineBench:
    model: str
    device: str
    workload: Workload
    generate_8_over_1: float
    train_8_over_1: float | None
    step_8_over_1: float | None
    generate_over_base: float
    peft_generate_over_ours: float | None
    peft_train_over_ours: float | None
    tokens_per_s: float
    train_tokens_per_s: float | None
    idle_frac: float
    padding_frac: float | None
    shared_frac: float | None
    logprob_gap: float | None
    peak_gb: float | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


Say = Callable[[str], None]
_LEARNING = TrainSettings(learning_rate=1e-6)
_PEFT_ROUNDS = 2
"""It takes several times as long as all the rest."""


def bench_engine(
    name: str,
    device: str,
    config: EngineConfig,
    lora: LoraConfig,
    workload: Workload,
    with_peft: bool,
    say: Say,
) -> EngineBench:
    where = pick_device(device)
    base = bench_base(name, where)
    engine = TorchEngine(base, workload.members, config, lora)
    for slot in range(workload.members):  # not the base: B is no longer zero
        engine.write(
            slot,
            {key: (a, torch.randn_like(b) * 0.01) for key, (a, b) in engine.read(slot).items()},
            reset_optimizer=True,
        )
    bare = TorchEngine(base, 0, config)
    many, one = sample_requests(workload, workload.members), sample_requests(workload, 1)
    sampling = SamplingParams(1.0)
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    say(f"generate: {len(many)} rows")
    generated = _rounds(
        workload.rounds,
        where,
        many=lambda: engine.generate(many, sampling),
        one=lambda: engine.generate(one, sampling),
        bare=lambda: bare.generate(one, sampling),
    )
    found = engine.generate(many, sampling)
    tokens = sum(len(completion.tokens) for completion in found)
    assert engine.generated is not None
    idle = engine.generated.idle_frac
    learned = [
        TrainSample(row.slot, row.prompt, done.tokens, 1.0, done.logprobs)
        for row, done in zip(many, found, strict=True)
    ]
    trained, stats = (
        _trained(engine, learned, workload, where, say) if workload.train else (None, None)
    )
    peak = torch.cuda.max_memory_allocated() / 1e9 if where.type == "cuda" else None
    peft_generated = peft_trained = None
    if with_peft and workload.train:
        say("PEFT, one adapter at a time")
        other = PeftBaseline(name, where, lora, workload.members)
        peft_generated = _rounds(
            _PEFT_ROUNDS,
            where,
            ours=lambda: engine.generate(many, sampling),
            peft=lambda: other.generate(many),
        )
        other.choose_batch(learned)
        peft_trained = _rounds(
            _PEFT_ROUNDS,
            where,
            ours=lambda: engine.train(learned, _LEARNING),
            peft=lambda: other.train(learned),
        )
    ours = statistics.median(generated["many"])
    ours_training = statistics.median(trained["many"]) if trained else math.nan
    return EngineBench(
        model=name,
        device=torch.cuda.get_device_name()
        if where.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads",
        workload=workload,
        generate_8_over_1=_ratio(generated["many"], generated["one"]),
        train_8_over_1=_ratio(trained["many"], trained["one"]) if trained else None,
        step_8_over_1=_ratio(
            _sums(generated["many"], trained["many"]), _sums(generated["one"], trained["one"])
        )
        if trained
        else None,
        generate_over_base=_ratio(generated["bare"], generated["many"]),
        peft_generate_over_ours=None
        if peft_generated is None
        else _ratio(peft_generated["peft"], peft_generated["ours"]),
        peft_train_over_ours=None
        if peft_trained is None
        else _ratio(peft_trained["peft"], peft_trained["ours"]),
        tokens_per_s=round(tokens / ours, 1),
        train_tokens_per_s=round(stats.tokens / ours_training, 1) if stats else None,
        idle_frac=round(idle, 4),
        padding_frac=round(stats.padding_frac, 4) if stats else None,
        shared_frac=round(stats.shared_frac, 4) if stats else None,
        logprob_gap=max(member.logprob_gap for member in stats.members.values()) if stats else None,
        peak_gb=None if peak is None else round(peak, 2),
    )


def _trained(
    engine: TorchEngine,
    learned: list[TrainSample],
    workload: Workload,
    where: torch.device,
    say: Say,
) -> tuple[dict[str, list[float]], TrainStats]:
    """Seconds of training on the same rows, by all members and by one."""
    by_one = [
        TrainSample(0, row.prompt, row.completion, row.advantage, row.logprobs) for row in learned
    ]
    stats = engine.train(learned, _LEARNING)
    say(f"train: {sum(len(row.completion) for row in learned)} tokens")
    return _rounds(
        workload.rounds,
        where,
        many=lambda: engine.train(learned, _LEARNING),
        one=lambda: engine.train(by_one, _LEARNING),
    ), stats


def _sums(some: list[float], others: list[float]) -> list[float]:
    return [a + b for a, b in zip(some, others, strict=True)]


def _rounds(
    rounds: int, where: torch.device, **ways: Callable[[], object]
) -> dict[str, list[float]]:
    """Seconds of every way, in turns, after one round that does not count."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            seconds = time_call(way, where)
            if turn:
                found[name].append(seconds)
    return found


def _ratio(some: list[float], others: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(some, others, strict=True)), 3)


def _table(result: EngineBench) -> Table:
    table = Table(
        title=f"{result.model}, {result.workload.members} members, {result.device}",
        title_justify="left",
    )
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("meaning")
    values = result.as_json()
    for name, meaning in _MEANING.items():
        value = values[name]
        table.add_row(
            name,
            "-" if value is None else f"{value:,.0f}" if value > 1000 else f"{value:.3g}",
            meaning,
        )
    return table
