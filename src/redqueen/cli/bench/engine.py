"""How fast the engine is, as ratios within one run: many members against one, against the bare
base, against PEFT one adapter at a time.

Every comparison runs the same rows with the same lengths, in turns, and takes the median of its
rounds. Weights may be random: what is measured does not depend on them, since rows are ended by
their limits and not by a stop token.
"""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import (
    SampleRequest,
    SamplingParams,
    TrainSample,
    TrainSettings,
    TrainStats,
)
from redqueen.engine.torch.engine import TorchEngine
from redqueen.errors import ConfigError
from redqueen.models.base import Base, load_base, pick_device

SHAPES: dict[str, dict[str, Any]] = {
    "0.5b": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
    },
    "1.5b": {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
    },
    "7b": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
    },
}
"""Qwen2.5's sizes, made up with random weights: speed needs no more."""


@dataclass(frozen=True, slots=True)
class Workload:
    members: int
    prompts: int
    """For all members together."""
    attempts: int
    prompt_tokens: int
    shortest: int
    longest: int
    skew: int
    """Of the tokens of a completion: the higher, the more are short. In a run of Pawn answers have
    30 on average and 160 at most, and of 64 to 256 of them the longest has 4 to 5 times the mean
    (skew 4); proposals have 80 on average and 192 at most (skew 2)."""
    rounds: int
    train: bool = True
    """Otherwise only sampling is measured."""


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
    base = _base(name, where)
    engine = TorchEngine(base, workload.members, config, lora)
    for slot in range(workload.members):  # not the base: B is no longer zero
        engine.write(
            slot,
            {key: (a, torch.randn_like(b) * 0.01) for key, (a, b) in engine.read(slot).items()},
            reset_optimizer=True,
        )
    bare = TorchEngine(base, 0, config)
    many, one = _rows(workload, workload.members), _rows(workload, 1)
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
        other = _Peft(name, where, lora, workload.members)
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


def _base(name: str, where: torch.device) -> Base:
    if name not in SHAPES:
        return load_base(name, device=str(where))
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        **SHAPES[name],
        vocab_size=151_936,
        max_position_embeddings=32_768,
        tie_word_embeddings=name != "7b",
    )
    with where:
        torch.set_default_dtype(torch.bfloat16 if where.type == "cuda" else torch.float32)
        try:
            model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
        finally:
            torch.set_default_dtype(torch.float32)
    return Base(name, model.requires_grad_(False).eval(), load_base("pawn", device="cpu").tokenizer)


def _rows(workload: Workload, members: int) -> list[SampleRequest]:
    """The same rows whatever the number of members; only who writes them differs."""
    draw = Random(0)
    rows = []
    for number in range(workload.prompts):
        prompt = tuple(draw.randrange(3, 500) for _ in range(workload.prompt_tokens))
        for _ in range(workload.attempts):
            limit = workload.shortest + int(
                (workload.longest - workload.shortest) * draw.random() ** workload.skew
            )
            rows.append(SampleRequest(prompt, limit, number % members, draw.getrandbits(64)))
    return rows


def _rounds(
    rounds: int, where: torch.device, **ways: Callable[[], object]
) -> dict[str, list[float]]:
    """Seconds of every way, in turns, after one round that does not count."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            seconds = _timed(way, where)
            if turn:
                found[name].append(seconds)
    return found


def _timed(way: Callable[[], object], where: torch.device) -> float:
    if where.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    way()
    if where.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def _ratio(some: list[float], others: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(some, others, strict=True)), 3)


# the other way


class _Peft:
    """The same work by PEFT, each member's by itself: `generate()` of all its rows, then one
    training step."""

    def __init__(self, name: str, where: torch.device, lora: LoraConfig, members: int) -> None:
        try:
            import peft
        except ImportError as error:
            raise ConfigError(
                "the comparison with PEFT needs the package peft: pip install peft, or leave it out with --no-peft"
            ) from error
        targets = list(lora.targets) or "all-linear"
        settings = peft.LoraConfig(
            r=lora.rank,
            lora_alpha=int(lora.alpha),
            target_modules=targets,
            task_type="CAUSAL_LM",
        )
        self.model: Any = peft.get_peft_model(_base(name, where).model, settings, adapter_name="0")
        for slot in range(1, members):
            self.model.add_adapter(str(slot), settings)
        self.where, self.members, self.rows_each = where, members, 8
        self.optimizers = []
        for slot in range(members):
            self.model.set_adapter(str(slot))
            self.optimizers.append(
                torch.optim.AdamW(
                    [weight for weight in self.model.parameters() if weight.requires_grad], lr=1e-6
                )
            )

    def choose_batch(self, rows: list[TrainSample]) -> None:
        """The size of its batches that it trains fastest with."""
        self.train(rows)  # the first time is slower
        seconds = {}
        for self.rows_each in (8, 32):
            seconds[self.rows_each] = _timed(lambda: self.train(rows), self.where)
        self.rows_each = min(seconds, key=seconds.__getitem__)

    def generate(self, rows: list[SampleRequest]) -> None:
        for slot in range(self.members):
            mine = [row for row in rows if row.slot == slot]
            self.model.set_adapter(str(slot))
            ids = torch.tensor([row.prompt for row in mine], device=self.where)
            with torch.inference_mode():
                self.model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    max_new_tokens=max(row.max_tokens for row in mine),
                    eos_token_id=None,
                    pad_token_id=0,
                )

    def train(self, rows: list[TrainSample]) -> None:
        for slot in range(self.members):
            mine = sorted(
                (row for row in rows if row.slot == slot), key=lambda row: len(row.completion)
            )
            self.model.set_adapter(str(slot))
            total = sum(len(row.completion) for row in mine)
            for start in range(0, len(mine), self.rows_each):
                self._learn(mine[start : start + self.rows_each], total)
            self.optimizers[slot].step()
            self.optimizers[slot].zero_grad(set_to_none=True)

    def _learn(self, part: list[TrainSample], total: int) -> None:
        length = max(len(row.prompt) + len(row.completion) for row in part)
        ids = torch.zeros(len(part), length, dtype=torch.long)
        weights = torch.zeros(len(part), length)
        for number, row in enumerate(part):
            ids[number, : len(row.prompt) + len(row.completion)] = torch.tensor(
                row.prompt + row.completion
            )
            weights[number, len(row.prompt) : len(row.prompt) + len(row.completion)] = 1 / total
        ids, weights = ids.to(self.where), weights.to(self.where)
        logits = self.model(input_ids=ids).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none"
        )
        (losses * weights[:, 1:].flatten()).sum().backward()
