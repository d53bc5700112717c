"""The engine against oracles: PEFT with one adapter alone, one row at a time, no sharing, an
uninterrupted run."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import peft
import pytest
import torch
import transformers
from torch import Tensor

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import (
    Completion,
    SampleRequest,
    SamplingParams,
    TrainSample,
    TrainSettings,
)
from redqueen.engine.torch.decode_batch import DecodeBatch, DecodeBatchPool
from redqueen.engine.torch.decode_loop import DecodeLoop
from redqueen.engine.torch.engine import TorchEngine
from redqueen.engine.torch.learner import split
from redqueen.engine.torch.prefill_queue import PromptGroup
from redqueen.engine.torch.routing import Routing
from redqueen.engine.torch.scheduler import Scheduler
from redqueen.errors import ConfigError, DataError
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.models.base import Base, load_base
from redqueen.models.peft_io import load_adapter, save_adapter

FAMILIES = {
    "llama": transformers.LlamaConfig,
    "qwen2": transformers.Qwen2Config,
    "qwen3": transformers.Qwen3Config,
    "gemma": transformers.GemmaConfig,
    "gemma2": transformers.Gemma2Config,
    "gemma3_text": transformers.Gemma3TextConfig,
    "mistral": transformers.MistralConfig,
}
VOCABULARY = 97


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn").tokenizer


def tiny_model(family: str) -> Any:
    """A random model; those with local attention look back six tokens, so that it matters."""
    torch.manual_seed(0)
    window = {"sliding_window": 6} if family in ("gemma2", "gemma3_text", "mistral") else {}
    config = FAMILIES[family](
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **window,
    )
    model = (
        transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="eager" if family == "gemma2" else "sdpa"
        )
        .float()
        .eval()
    )
    for parameter in model.parameters():  # far from any symmetry
        torch.nn.init.normal_(parameter, std=0.15) if parameter.dim() > 1 else parameter.data.add_(
            torch.randn_like(parameter) * 0.1
        )
    return model.requires_grad_(False)


def tiny_engine(
    tokenizer: Any, family: str = "llama", slots: int = 3, **settings: Any
) -> TorchEngine:
    lora = {name: settings.pop(name) for name in ("rank", "alpha", "targets") if name in settings}
    config = EngineConfig(**{"max_num_seqs": 6, "decode_steps_per_sync": 3, **settings})
    shape = LoraConfig(**{"rank": 4, "alpha": 8, **lora})
    engine = TorchEngine(Base("tiny", tiny_model(family), tokenizer), slots, config, shape)
    for slot in range(slots):
        engine.write(slot, disturbed(engine.read(slot), slot), reset_optimizer=False)
    return engine


def disturbed(adapter: Adapter, seed: int) -> Adapter:
    generator = torch.Generator().manual_seed(100 + seed)
    projections = {
        name: LoraPair(a, torch.randn(b.shape, generator=generator) * 0.1)
        for name, (a, b) in adapter.projections.items()
    }
    return replace(adapter, projections=projections)


def peft_model(engine: TorchEngine, family: str, slot: int, folder: Path) -> Any:
    """The same base with one member alone, loaded by PEFT from what we wrote."""
    save_adapter(engine.read(slot), folder, base="tiny", fingerprint="")
    return peft.PeftModel.from_pretrained(tiny_model(family), folder, is_trainable=True)


def prompts(count: int, draw: Random, longest: int = 12) -> list[tuple[int, ...]]:
    return [
        tuple(draw.randrange(3, VOCABULARY) for _ in range(draw.randint(2, longest)))
        for _ in range(count)
    ]


def train_rows(draw: Random, slots: list[int], attempts: int = 3) -> list[TrainSample]:
    rows = []
    for slot in slots:
        for prompt in prompts(2, draw):
            for _ in range(attempts):
                completion = tuple(draw.randrange(3, VOCABULARY) for _ in range(draw.randint(1, 7)))
                rows.append(TrainSample(slot, prompt, completion, draw.uniform(-1, 1)))
    return rows


def close(ours: Tensor, theirs: Tensor) -> bool:
    return bool((ours - theirs).abs().max() <= 1e-5 * theirs.abs().max().clamp(min=1e-3))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_gradients_of_every_slot_are_those_of_peft_alone(
    family: str, tokenizer: Any, tmp_path: Path
) -> None:
    engine = tiny_engine(tokenizer, family)
    assert engine.population is not None and engine.optimizer is not None
    draw = Random(1)
    rows = train_rows(draw, [0, 1, 2])
    caught: dict[str, Tensor] = {}
    take = engine.optimizer.step
    engine.optimizer.step = lambda settings: (  # type: ignore[method-assign]
        caught.update(grads=engine.population.grads.clone()) or take(settings)  # type: ignore[union-attr]
    )
    oracles = {slot: peft_model(engine, family, slot, tmp_path / str(slot)) for slot in range(3)}
    ids = torch.tensor([draw.choices(range(3, VOCABULARY), k=9) for _ in range(6)])
    with torch.no_grad():
        hidden = engine.forward.sequences(
            ids, torch.arange(9).expand(6, 9), None, engine.forward.routing([0, 0, 1, 1, 2, 2])
        )
        ours = engine.forward.logits(hidden)
    for slot, oracle in oracles.items():
        assert close(
            ours[2 * slot : 2 * slot + 2], oracle(ids[2 * slot : 2 * slot + 2]).logits.detach()
        )
    engine.train(rows, TrainSettings(grad_clip=math.inf))
    for slot, oracle in oracles.items():
        mine = [row for row in rows if row.slot == slot]
        total = sum(len(row.completion) for row in mine)
        for row in mine:
            logits = oracle(torch.tensor([row.prompt + row.completion])).logits[
                0, len(row.prompt) - 1 : -1
            ]
            logprobs = torch.log_softmax(logits, -1).gather(
                1, torch.tensor(row.completion)[:, None]
            )
            (-row.advantage * logprobs.sum() / total).backward()  # type: ignore[operator]
        for name in engine.population.names:
            ours_a, ours_b = (grad[slot] for grad in engine.population.views(caught["grads"], name))
            layer = oracle.base_model.model.get_submodule(name)
            assert close(ours_a, layer.lora_A["default"].weight.grad.T), name
            assert close(ours_b, layer.lora_B["default"].weight.grad.T), name


def test_a_newborn_is_the_base(tokenizer: Any) -> None:
    engine = TorchEngine(Base("tiny", tiny_model("llama"), tokenizer), 2, lora=LoraConfig(rank=4))
    ids = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
    with torch.no_grad():
        ours = engine.forward.logits(
            engine.forward.sequences(
                ids, torch.arange(4).expand(2, 4), None, engine.forward.routing([0, 1])
            )
        )
        assert torch.equal(ours, tiny_model("llama")(ids).logits)


def sample_rows(
    draw: Random, slots: int = 3, each: int = 4, attempts: int = 3
) -> list[SampleRequest]:
    return [
        SampleRequest(prompt, draw.randint(1, 14), slot, draw.getrandbits(64))
        for slot in range(slots)
        for prompt in prompts(each, draw)
        for _ in range(attempts)
    ]


def same(some: list[Completion], others: list[Completion]) -> bool:
    return all(
        a.tokens == b.tokens
        and a.finish_reason == b.finish_reason
        and all(abs(x - y) < 1e-5 for x, y in zip(a.logprobs, b.logprobs, strict=True))
        for a, b in zip(some, others, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3"])
@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(1.0, frozenset({2, 9, 33})),
        SamplingParams(0.7, top_p=0.8),
        SamplingParams(0.0),
    ],
)
def test_a_rows_text_does_not_depend_on_what_is_sampled_beside_it(
    family: str, sampling: SamplingParams, tokenizer: Any
) -> None:
    engine = tiny_engine(tokenizer, family)
    rows = sample_rows(Random(2))
    together = engine.generate(rows, sampling)
    one_by_one = [engine.generate([row], sampling)[0] for row in rows]
    assert same(together, one_by_one)
    shuffled = list(range(len(rows)))
    Random(3).shuffle(shuffled)
    again = engine.generate([rows[number] for number in shuffled], sampling)
    assert same([together[number] for number in shuffled], again)


@pytest.mark.parametrize(
    ("in_blocks", "max_num_seqs", "at_first"),
    [(True, 16, [1, 2]), (True, 64, [0, 1, 2]), (False, 48, [0, 1, 2])],
)
def test_sequence_slots_that_change_adapters_change_no_text(
    in_blocks: bool,
    max_num_seqs: int,
    at_first: list[int],
    tokenizer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a GPU and as on a CPU: blocks of eight, few enough that adapters wait for each other's.
    Sequences are moved to empty blocks."""
    rng = Random(21)
    requests = [
        SampleRequest(prompt, rng.randint(2, 30), slot, rng.getrandbits(64))
        for slot in (0, 1, 1, 1, 2, 2)
        for prompt in prompts(7, rng)
        for _ in range(2)
    ]
    apart, together = (
        tiny_engine(tokenizer, max_num_seqs=999),
        tiny_engine(tokenizer, max_num_seqs=max_num_seqs),
    )
    together.decode_batches.in_blocks = together.decode_batches.prefetches = in_blocks
    layouts: list[list[int]] = []
    assigned: list[list[int]] = []
    moved: list[int] = []
    get, assign, move = DecodeBatchPool.get, DecodeBatch.assign, DecodeBatch.move
    monkeypatch.setattr(
        DecodeBatchPool,
        "get",
        lambda self, slots, *more: layouts.append(list(slots)) or get(self, slots, *more),  # type: ignore[func-returns-value]
    )
    monkeypatch.setattr(
        DecodeBatch,
        "assign",
        lambda self, slots: assigned.append(list(slots)) or assign(self, slots),  # type: ignore[func-returns-value]
    )
    monkeypatch.setattr(
        DecodeBatch,
        "move",
        lambda self, source, target: moved.extend(source.tolist()) or move(self, source, target),  # type: ignore[func-returns-value]
    )
    sampling = SamplingParams(1.0, frozenset([5]))
    completions = together.generate(requests, sampling)
    assert sorted(set(layouts[0])) == at_first and assigned and (moved or len(at_first) == 2)
    assert same(completions, apart.generate(requests, sampling))


@pytest.mark.parametrize(("max_num_seqs", "slots"), [(48, 48), (64, 63), (75, 72), (200, 126)])
def test_sequence_slots_on_a_cpu_are_in_blocks_only_where_few_are_lost(
    max_num_seqs: int, slots: int
) -> None:
    requests = [SampleRequest((5, 6, 7), 2, slot, seed) for slot in range(3) for seed in range(42)]
    scheduler = Scheduler(requests, max_num_seqs, max_prefill_tokens=999, in_blocks=False)
    assert len(scheduler.slot_adapters) == slots


def test_a_request_has_no_temperature_of_zero(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="own temperature must be above zero"):
        tiny_engine(tokenizer).generate(
            [SampleRequest((5, 6), 2, temperature=0.0)], SamplingParams(1.0)
        )


@pytest.mark.parametrize("in_blocks", [False, True])
def test_prefetched_prompts_are_prefilled_once_and_change_no_text(
    in_blocks: bool, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(22)
    requests = [
        SampleRequest(prompt, rng.randint(2, 30), slot, rng.getrandbits(64))
        for slot in (0, 1, 1, 2)
        for prompt in prompts(9, rng)
        for _ in range(3)
    ]
    plain, ahead = (
        tiny_engine(tokenizer, max_num_seqs=24),
        tiny_engine(tokenizer, max_num_seqs=24),
    )
    sampling = SamplingParams(1.0, frozenset([5]))
    expected = plain.generate(requests, sampling)
    ahead.decode_batches.in_blocks, ahead.decode_batches.prefetches = in_blocks, True
    prefilled: list[tuple[int, tuple[int, ...]]] = []
    early: list[PromptGroup] = []
    prefill, prefetch = DecodeLoop._prefill, Scheduler.prefetch

    def note_prefill(self: DecodeLoop, groups: list[PromptGroup]) -> None:
        prefilled.extend((group.adapter, group.prompt) for group in groups)
        prefill(self, groups)

    def note_prefetch(self: Scheduler) -> Iterator[list[PromptGroup]]:
        for groups in prefetch(self):
            early.extend(groups)
            yield groups

    monkeypatch.setattr(DecodeLoop, "_prefill", note_prefill)
    monkeypatch.setattr(Scheduler, "prefetch", note_prefetch)
    assert same(ahead.generate(requests, sampling), expected)
    distinct = {(request.slot, request.prompt) for request in requests}
    assert len(prefilled) == len(set(prefilled)) == len(distinct)
    assert len(early) > len(prefilled) / 3


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (2, r"37 GB were in use; other programs hold 98 of its 140 GB\)"),
        (99, r"37 GB were in use\)"),
    ],
)
def test_where_the_gpus_memory_ends_the_message_says_what_to_do(
    free: int, said: str, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tiny_engine(tokenizer)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free * 10**9, 140 * 10**9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 40 * 10**9)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 37 * 10**9)

    def full(*args: object) -> None:
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(DecodeLoop, "run", full)
    with pytest.raises(ConfigError, match=said + ". Lower engine.max_num_seqs"):
        engine.generate(sample_rows(Random(2)), SamplingParams())


def test_every_row_is_drawn_at_its_own_temperature(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    rows = sample_rows(Random(5))
    mixed = [
        replace(row, temperature=(None, 0.3, 1.7)[number % 3]) for number, row in enumerate(rows)
    ]
    alone = {heat: engine.generate(rows, SamplingParams(heat)) for heat in (1.0, 0.3, 1.7)}
    found = engine.generate(mixed, SamplingParams(1.0))
    assert same(found, [alone[(1.0, 0.3, 1.7)[number % 3]][number] for number in range(len(rows))])
    assert not same(found, alone[1.0])


def test_the_same_rows_give_the_same_bits(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    rows = sample_rows(Random(4))
    assert engine.generate(rows, SamplingParams()) == engine.generate(rows, SamplingParams())


def test_attempts_at_one_prompt_share_its_computation_and_differ(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer, max_num_seqs=32)
    rows = [
        SampleRequest((5, 6, 7, 8, 9), 12, slot, seed) for slot in range(3) for seed in range(8)
    ]
    found = engine.generate(rows, SamplingParams())
    assert engine.generated is not None and engine.generated.shared_frac == pytest.approx(7 / 8)
    assert len({completion.tokens for completion in found}) > 20


def test_sampled_tokens_follow_the_models_probabilities(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer, max_num_seqs=4096)
    prompt = (5, 6, 7)
    found = engine.generate(
        [SampleRequest(prompt, 1, 1, seed) for seed in range(4000)], SamplingParams()
    )
    with torch.no_grad():
        hidden = engine.forward.sequences(
            torch.tensor([prompt]), torch.arange(3)[None], None, engine.forward.routing([1])
        )
        chances = torch.softmax(engine.forward.logits(hidden)[0, -1], -1)
    counts = torch.bincount(
        torch.tensor([completion.tokens[0] for completion in found]), minlength=VOCABULARY
    )
    spread = (4000 * chances * (1 - chances)).sqrt().clamp(min=1)
    assert ((counts - 4000 * chances).abs() / spread).max() < 5


def test_stops_and_limits_are_kept(tokenizer: Any) -> None:
    base = load_base("pawn")
    engine = TorchEngine(base, 1, EngineConfig(decode_steps_per_sync=5), LoraConfig(rank=4))
    prompt = tuple(
        base.tokenizer(
            ">>student code_o\n>>program\ndef f(xs):\n    return xs + [5]\n>>input\n[1, 2]\n>>answer\n"
        )["input_ids"]
    )
    (whole,) = engine.generate(
        [SampleRequest(prompt, 60)], SamplingParams(0.0, base.stops([">>end"])[0])
    )
    assert (
        base.decode(list(whole.tokens)) == ">>output\n[1, 2, 5]\n" and whole.finish_reason == "stop"
    )
    (cut,) = engine.generate([SampleRequest(prompt, 60)], SamplingParams(0.0, stop_texts=("2, 5",)))
    assert base.decode(list(cut.tokens)) == ">>output\n[1, 2, 5" and cut.finish_reason == "stop"
    (short,) = engine.generate([SampleRequest(prompt, 4)], SamplingParams(0.0))
    assert (
        len(short.tokens) == len(short.logprobs) == 4
        and short.finish_reason == "length"
        and short.tokens == whole.tokens[:4]
    )


def test_what_is_learned_from_shared_prompts_is_what_is_learned_from_separate_ones(
    tokenizer: Any,
) -> None:
    rows = train_rows(Random(5), [0, 1, 2])
    shared, separate = tiny_engine(tokenizer), tiny_engine(tokenizer, share_prompts=False)
    first, second = (
        shared.train(rows, TrainSettings(learning_rate=1e-2)),
        separate.train(rows, TrainSettings(learning_rate=1e-2)),
    )
    assert first.shared_frac > 0.2 and second.shared_frac == 0
    for slot in range(3):
        assert first.members[slot].grad_norm == pytest.approx(
            second.members[slot].grad_norm, rel=1e-4
        )
        assert first.members[slot].loss == pytest.approx(
            second.members[slot].loss, rel=1e-4, abs=1e-6
        )


def test_a_batch_keeps_to_its_tokens_or_is_one_sequence() -> None:
    draw = Random(3)
    rows = [
        TrainSample(slot, (5,) * draw.randint(1, 60), (6,) * draw.randint(1, 30), 1.0)
        for slot in range(8)
        for _ in range(draw.randint(1, 6))
    ]
    batches = list(split(rows, 150, True, torch.device("cpu")))
    assert all(
        batch.ids.numel() <= 150 + 7 * len(batch.ids) for batch in batches
    )  # rounded up to multiples of eight
    assert sum(len(batch.targets) for batch in batches) == sum(len(row.completion) for row in rows)
    assert any(1 < len(set(batch.row_slots)) < 8 for batch in batches)
    assert [len(batch.ids) for batch in split(rows, 10, True, torch.device("cpu"))] == [1] * len(
        rows
    )


def test_micro_batches_make_no_difference(tokenizer: Any) -> None:
    rows = train_rows(Random(6), [0, 1, 1, 2])
    large, small = tiny_engine(tokenizer), tiny_engine(tokenizer, max_tokens_per_microbatch=40)
    first, second = large.train(rows, TrainSettings()), small.train(rows, TrainSettings())
    for slot in range(3):
        assert first.members[slot].grad_norm == pytest.approx(
            second.members[slot].grad_norm, rel=1e-4
        )


def test_what_a_member_learns_does_not_depend_on_the_others(tokenizer: Any) -> None:
    rows = train_rows(Random(7), [0, 1, 2])
    settings = TrainSettings(learning_rate=1e-3, weight_decay=0.1)
    together, alone = tiny_engine(tokenizer), tiny_engine(tokenizer)
    before = alone.state()["weights"]
    together.train(rows, settings)
    alone.train([row for row in rows if row.slot == 1], settings)
    ours, theirs = together.state()["weights"], alone.state()["weights"]
    assert (ours[1] - theirs[1]).abs().max() < 1e-5 and not torch.equal(theirs[1], before[1])
    assert torch.equal(theirs[0], before[0]) and torch.equal(theirs[2], before[2])


def test_a_gradient_that_is_no_number_changes_nothing_and_is_told(tokenizer: Any) -> None:
    rows = train_rows(Random(7), [0, 1, 2])
    broken = [replace(row, advantage=math.nan) if row.slot == 1 else row for row in rows]
    settings = TrainSettings(learning_rate=1e-3, weight_decay=0.1)
    together, without = tiny_engine(tokenizer), tiny_engine(tokenizer)
    before = together.state()
    stats = together.train(broken, settings)
    without.train([row for row in rows if row.slot != 1], settings)
    after = together.state()
    assert stats.broken == {1} and set(stats.members) == {0, 2}
    assert all(torch.equal(before[name][1], after[name][1]) for name in before)
    assert (after["weights"] - without.state()["weights"]).abs().max() < 1e-5


def test_a_member_whose_gradient_was_no_number_learns_no_more_in_later_steps_of_the_call(
    tokenizer: Any,
) -> None:
    rows = train_rows(Random(7), [0, 1])
    first = next(row for row in rows if row.slot == 1)
    broken = [replace(row, advantage=math.nan) if row is first else row for row in rows]
    engine = tiny_engine(tokenizer)
    before = engine.state()
    stats = engine.train(broken, TrainSettings(learning_rate=1e-3, optimizer_steps=2))
    after = engine.state()
    assert stats.broken == {1} and after["step"][0] == 2
    assert all(torch.equal(before[name][1], after[name][1]) for name in before)


def test_a_member_with_more_rows_learns_in_several_blocks_what_it_would_alone(
    tokenizer: Any,
) -> None:
    """So many rows that each block is worth it: the routing is then without padding."""
    draw = Random(9)
    rows = [
        TrainSample(slot, (5, 6, number + 7), (draw.randrange(3, 90),) * 3, 1.0)
        for slot, count in ((0, 8), (2, 24))
        for number in range(count)
    ]
    settings = TrainSettings(learning_rate=1e-3)
    together, alone = (
        tiny_engine(tokenizer, share_prompts=False),
        tiny_engine(tokenizer, share_prompts=False),
    )
    assert together.population is not None
    assert Routing.of([row.slot for row in rows], together.population).blocks == 4
    together.train(rows, settings)
    for slot in (0, 2):
        alone.train([row for row in rows if row.slot == slot], settings)
    assert (together.state()["weights"] - alone.state()["weights"]).abs().max() < 1e-5


def test_a_member_with_its_own_learning_rate_moves_by_it(tokenizer: Any) -> None:
    rows = train_rows(Random(8), [0, 1])
    engine = tiny_engine(tokenizer)
    before = engine.state()["weights"]
    engine.train(rows, TrainSettings(learning_rate=1e-3, learning_rates={1: 0.0}))
    after = engine.state()["weights"]
    assert torch.equal(before[1], after[1]) and not torch.equal(before[0], after[0])


def test_training_raises_what_is_rewarded_and_lowers_what_is_not(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    good, bad = TrainSample(0, (5, 6), (7, 8, 9), 1.0), TrainSample(0, (5, 6), (10, 11), -1.0)
    settings = TrainSettings(learning_rate=1e-2)
    first = probabilities(engine, [good, bad])
    for _ in range(5):
        engine.train([good, bad], settings)
    last = probabilities(engine, [good, bad])
    assert last[0] > first[0] + 0.5 and last[1] < first[1] - 0.5


def probabilities(engine: TorchEngine, rows: list[TrainSample]) -> list[float]:
    found = []
    for row in rows:
        ids = torch.tensor([row.prompt + row.completion])
        with torch.no_grad():
            hidden = engine.forward.sequences(
                ids, torch.arange(ids.shape[1])[None], None, engine.forward.routing([row.slot])
            )
            logprobs = torch.log_softmax(
                engine.forward.logits(hidden)[0, len(row.prompt) - 1 : -1], -1
            )
        found.append(float(logprobs.gather(1, torch.tensor(row.completion)[:, None]).sum()))
    return found


def test_rows_without_advantage_cost_nothing_and_change_nothing(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    rows = [replace(row, advantage=0.0) for row in train_rows(Random(9), [0, 1])]
    before = engine.state()
    stats = engine.train(rows, TrainSettings(weight_decay=0.5))
    assert stats.skipped_rows == len(rows) and stats.tokens == 0 and not stats.members
    assert all(torch.equal(value, before[name]) for name, value in engine.state().items())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampled_and_trained_log_probabilities_agree(temperature: float, tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    rows = sample_rows(Random(10))
    found = engine.generate(rows, SamplingParams(temperature, frozenset({2})))
    learned = [
        TrainSample(row.slot, row.prompt, done.tokens, 1.0, done.logprobs, temperature)
        for row, done in zip(rows, found, strict=True)
    ]
    stats = engine.train(learned, TrainSettings())
    assert all(member.logprob_gap_max < 1e-4 for member in stats.members.values())
    assert all(member.entropy > 0 for member in stats.members.values())


def test_clipping_stops_the_gradient_of_tokens_that_moved_far(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    row = TrainSample(0, (5, 6), (7, 8), 1.0)
    now = probabilities(engine, [TrainSample(0, (5, 6), (7,), 1.0)])[0], 0.0
    old = (now[0] - 1.0, -1e3)  # both far more likely now than when they were sampled
    stats = engine.train([replace(row, logprobs=old)], TrainSettings(clip_low=0.2, clip_high=0.2))
    assert stats.members[0].clipped_frac == 1.0 and stats.members[0].grad_norm == 0.0


def test_divergence_from_the_base_is_counted_and_pulls_back(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    rows = train_rows(Random(11), [0])
    first = engine.train(rows, TrainSettings(kl=10.0, learning_rate=3e-3)).members[0].kl
    for _ in range(15):
        last = engine.train(rows, TrainSettings(kl=10.0, learning_rate=3e-3)).members[0].kl
    assert first > 0 and last < first


def test_several_optimizer_steps_use_every_row_once(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    rows = train_rows(Random(12), [0, 1])
    stats = engine.train(rows, TrainSettings(optimizer_steps=3))
    assert sum(member.rows for member in stats.members.values()) == len(rows)
    assert engine.state()["step"].flatten().tolist() == [3, 3, 0]


@pytest.mark.slow
def test_a_resumed_engine_goes_on_to_the_bit(tokenizer: Any) -> None:
    rows = train_rows(Random(13), [0, 1, 2])
    straight, first = tiny_engine(tokenizer), tiny_engine(tokenizer)
    for _ in range(3):
        straight.train(rows, TrainSettings())
    first.train(rows, TrainSettings())
    resumed = tiny_engine(tokenizer)
    resumed.restore(first.state())
    for _ in range(2):
        resumed.train(rows, TrainSettings())
    assert all(
        torch.equal(value, resumed.state()[name]) for name, value in straight.state().items()
    )
    sampled = sample_rows(Random(14))
    assert straight.generate(sampled, SamplingParams()) == resumed.generate(
        sampled, SamplingParams()
    )


def test_gradient_checkpointing_makes_no_difference(tokenizer: Any) -> None:
    rows = train_rows(Random(15), [0, 1])
    plain, saving = tiny_engine(tokenizer), tiny_engine(tokenizer, gradient_checkpointing=True)
    first, second = plain.train(rows, TrainSettings()), saving.train(rows, TrainSettings())
    for slot in range(2):
        assert first.members[slot].grad_norm == pytest.approx(
            second.members[slot].grad_norm, rel=1e-5
        )


def test_an_adapter_comes_back_from_its_folder_and_fits_another_alpha(
    tokenizer: Any, tmp_path: Path
) -> None:
    engine, other = tiny_engine(tokenizer), tiny_engine(tokenizer, alpha=2)
    save_adapter(engine.read(1), tmp_path, base="tiny", fingerprint="")
    back, there = load_adapter(tmp_path), engine.read(1)
    assert (back.rank, back.alpha) == (there.rank, there.alpha)
    assert all(
        torch.equal(a, b)
        for name, pair in there.projections.items()
        for a, b in zip(back.projections[name], pair, strict=True)
    )
    other.write(2, back, reset_optimizer=True)
    rows = [TrainSample(1, (5, 6, 7), (8, 9), 1.0)]
    assert probabilities(engine, rows)[0] == pytest.approx(
        probabilities(other, [replace(rows[0], slot=2)])[0], abs=1e-4
    )


def test_bad_adapters_slots_states_and_targets_get_messages(tokenizer: Any, tmp_path: Path) -> None:
    engine = tiny_engine(tokenizer)
    with pytest.raises(DataError, match="not a readable PEFT adapter"):
        load_adapter(tmp_path)
    with pytest.raises(ConfigError, match="differs in"):
        engine.write(0, Adapter({}, 4, 8), reset_optimizer=True)
    with pytest.raises(ConfigError, match="no slot 3"):
        engine.generate([SampleRequest((1, 2), 3, 3)], SamplingParams())
    with pytest.raises(ConfigError, match="another base, rank or number of slots"):
        engine.restore({**engine.state(), "weights": torch.zeros(1, 2)})
    with pytest.raises(ConfigError, match=r"unknown projection 'q_prj'\. Did you mean 'q_proj'"):
        tiny_engine(tokenizer, targets=("q_prj",))
    with pytest.raises(ConfigError, match="both must be at least 1"):
        engine.generate([SampleRequest((), 3)], SamplingParams())


def test_chosen_projections_only_are_adapted(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer, targets=("q_proj", "v_proj"))
    assert engine.population is not None
    assert {name.rpartition(".")[2] for name in engine.population.names} == {
        "q_proj",
        "v_proj",
    } and len(engine.population.names) == 4
