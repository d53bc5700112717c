"""`redqueen bench engine`: engine speed as ratios within one run. Many members against one, against
the bare base, and against PEFT with one adapter at a time.

Every comparison processes the same requests, alternating between the ways, and takes the median
over rounds. Our engine generates every completion to exactly its own token limit, with one member,
with all of them and without adapters. PEFT's `generate()` runs a batch to the limit of its longest
completion: it gets requests sorted by length, in the batch size with which it is fastest, and the
surplus tokens that are left count as its time. Random weights are fine: completions end at their
limit, not at a stop token, so the work does not depend on the weights.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Annotated, Any

import torch
import typer
from rich.table import Table

from redqueen.cli.bench.peft import PeftBaseline
from redqueen.cli.bench.workload import Workload, bench_base, sample_requests, time_call
from redqueen.cli.console import note, note_others, print_table
from redqueen.cli.options import Device, Json
from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.cpu_load import LoadMeter
from redqueen.engine.protocol import (
    OptimizerSettings,
    SampleRequest,
    SamplingParams,
    TrainSample,
    TrainStats,
)
from redqueen.engine.torch.engine import TorchEngine
from redqueen.models.adapter import LoraPair
from redqueen.models.base import Base, pick_device
from redqueen.stages.update.losses import Reinforce, bind_loss

_MEANING = {
    "generate_8_over_1": "seconds to sample the same tokens from all members / from one",
    "train_8_over_1": "seconds to train on the same tokens, all members / one",
    "step_8_over_1": "both together",
    "generate_over_base": "tokens/s of all members / of the bare base in the same engine",
    "peft_generate_over_ours": "seconds of PEFT's generate(), one adapter at a time / ours",
    "peft_train_over_ours": "seconds of PEFT training, one adapter at a time / ours",
    "tokens_per_s": "tokens sampled per second, all members",
    "train_tokens_per_s": "tokens trained on per second, prompts counted once",
    "idle_frac": "share of sequence-slot steps without a sequence",
    "padding_frac": "share of padding in training",
    "shared_frac": "share of tokens saved in training because attempts share prompts",
    "logprob_gap": "mean difference of log-probabilities, sampled and trained",
    "peak_gb": "peak GPU memory",
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
    result = bench_engine(model, device, config, lora, workload, peft)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        print_table(_table(result))
    note_others(result.other_programs_cores)


@dataclass(frozen=True, slots=True)
class EngineBench:
    model: str
    device: str
    workload: Workload
    generate_8_over_1: float | None
    train_8_over_1: float | None
    step_8_over_1: float | None
    generate_over_base: float | None
    peft_generate_over_ours: float | None
    peft_train_over_ours: float | None
    tokens_per_s: float
    train_tokens_per_s: float | None
    idle_frac: float
    padding_frac: float | None
    shared_frac: float | None
    logprob_gap: float | None
    peak_gb: float | None
    other_programs_cores: float
    """Cores that other programs used meanwhile, on average."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


Seconds = dict[str, list[float]]
"""Of each way that was measured, one entry a round."""
_SAMPLING = SamplingParams(temperature=1.0)
_LOSS, _OPTIMIZER = bind_loss(Reinforce()), OptimizerSettings(learning_rate=1e-6)
_PEFT_ROUNDS = 2
"""PEFT takes several times as long as everything else together."""


def bench_engine(
    name: str,
    device: str,
    config: EngineConfig,
    lora: LoraConfig,
    workload: Workload,
    with_peft: bool,
) -> EngineBench:
    where, load = pick_device(device), LoadMeter()
    cuda = where.type == "cuda"
    base = bench_base(name, where)
    engine = _new_engine(base, config, lora, workload.members)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    requests = sample_requests(workload, workload.members)
    seconds = _time_sampling(engine, TorchEngine(base, 0, config), requests, workload)
    completions = engine.sample(requests, _SAMPLING)
    assert engine.generated is not None
    idle_frac = engine.generated.idle_frac
    samples = [
        TrainSample(request.slot, request.prompt, done.tokens, 1.0, done.logprobs)
        for request, done in zip(requests, completions, strict=True)
    ]
    stats = None
    if workload.train:
        stats = _train(engine, samples)
        seconds |= _time_training(engine, samples, workload.rounds)
        seconds["step"] = _add(seconds["generate"], seconds["train"])
        seconds["step_one"] = _add(seconds["generate_one"], seconds["train_one"])
    peak = torch.cuda.max_memory_allocated() / 1e9 if cuda else None
    if with_peft and workload.train:
        note("PEFT, one adapter at a time")
        peft = PeftBaseline(name, where, lora, workload.members)
        seconds |= _time_peft(engine, peft, requests, samples)
    tokens = sum(len(done.tokens) for done in completions)
    return EngineBench(
        model=name,
        device=torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads",
        workload=workload,
        generate_8_over_1=_ratio(seconds, "generate", "generate_one"),
        train_8_over_1=_ratio(seconds, "train", "train_one"),
        step_8_over_1=_ratio(seconds, "step", "step_one"),
        generate_over_base=_ratio(seconds, "generate_bare", "generate"),
        peft_generate_over_ours=_ratio(seconds, "peft_generate", "generate_beside_peft"),
        peft_train_over_ours=_ratio(seconds, "peft_train", "train_beside_peft"),
        tokens_per_s=round(tokens / median(seconds["generate"]), 1),
        train_tokens_per_s=round(stats.tokens / median(seconds["train"]), 1) if stats else None,
        idle_frac=round(idle_frac, 4),
        padding_frac=round(stats.padding_frac, 4) if stats else None,
        shared_frac=round(stats.shared_frac, 4) if stats else None,
        logprob_gap=max(member.logprob_gap for member in stats.slots.values()) if stats else None,
        peak_gb=None if peak is None else round(peak, 2),
        other_programs_cores=round(load.others(), 2),
    )


def _new_engine(base: Base, config: EngineConfig, lora: LoraConfig, members: int) -> TorchEngine:
    """An engine whose members differ from the base: B is not zero."""
    engine = TorchEngine(base, members, config, lora)
    for slot in range(members):
        adapter = engine.read(slot)
        projections = {
            name: LoraPair(a, torch.randn_like(b) * 0.01)
            for name, (a, b) in adapter.projections.items()
        }
        engine.write(slot, replace(adapter, projections=projections), reset_optimizer=True)
    return engine


def _time_sampling(
    engine: TorchEngine, bare: TorchEngine, requests: list[SampleRequest], workload: Workload
) -> Seconds:
    """The same requests by all members, by one, and by the base without adapters."""
    note(f"generate: {len(requests)} sequences")
    of_one = sample_requests(workload, 1)
    return _time_rounds(
        workload.rounds,
        engine.loaded.device,
        generate=lambda: engine.sample(requests, _SAMPLING),
        generate_one=lambda: engine.sample(of_one, _SAMPLING),
        generate_bare=lambda: bare.sample(of_one, _SAMPLING),
    )


def _train(engine: TorchEngine, samples: list[TrainSample]) -> TrainStats:
    stats = engine.accumulate(samples, _LOSS)
    engine.step(dict.fromkeys(stats.slots, _OPTIMIZER))
    return stats


def _time_training(engine: TorchEngine, samples: list[TrainSample], rounds: int) -> Seconds:
    """The same samples by all members, and by one."""
    note(f"train: {sum(len(sample.completion) for sample in samples)} tokens")
    of_one = [replace(sample, slot=0) for sample in samples]
    return _time_rounds(
        rounds,
        engine.loaded.device,
        train=lambda: _train(engine, samples),
        train_one=lambda: _train(engine, of_one),
    )


def _time_peft(
    engine: TorchEngine,
    peft: PeftBaseline,
    requests: list[SampleRequest],
    samples: list[TrainSample],
) -> Seconds:
    peft.choose_sample_batch_size(requests)
    generated = _time_rounds(
        _PEFT_ROUNDS,
        engine.loaded.device,
        generate_beside_peft=lambda: engine.sample(requests, _SAMPLING),
        peft_generate=lambda: peft.generate(requests),
    )
    peft.choose_train_batch_size(samples)
    trained = _time_rounds(
        _PEFT_ROUNDS,
        engine.loaded.device,
        train_beside_peft=lambda: _train(engine, samples),
        peft_train=lambda: peft.train(samples),
    )
    return generated | trained


def _time_rounds(rounds: int, where: torch.device, **ways: Callable[[], object]) -> Seconds:
    """Alternate between the ways; the first round is a warm-up."""
    seconds: Seconds = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, call in ways.items():
            elapsed = time_call(call, where)
            if number:
                seconds[name].append(elapsed)
    return seconds


def _add(left: list[float], right: list[float]) -> list[float]:
    return [a + b for a, b in zip(left, right, strict=True)]


def _ratio(seconds: Seconds, left: str, right: str) -> float | None:
    """The median over rounds; None if it was not measured."""
    if left not in seconds:
        return None
    return round(median(a / b for a, b in zip(seconds[left], seconds[right], strict=True)), 3)


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
