"""Sampling against oracles: one request at a time, other batches, the model's own probabilities."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import (
    Completion,
    SampleRequest,
    SamplingParams,
)
from redqueen.engine.torch.decode_batch import DecodeBatch, DecodeBatchPool
from redqueen.engine.torch.decode_loop import DecodeLoop
from redqueen.engine.torch.engine import TorchEngine
from redqueen.engine.torch.prefill_queue import PromptGroup
from redqueen.engine.torch.scheduler import Scheduler
from redqueen.errors import ConfigError
from redqueen.models.base import Base, load_base
from tests.contract.tiny import VOCABULARY, prompts, tiny_engine, tiny_model


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn").tokenizer


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


def sample_requests(
    rng: Random, slots: int = 3, each: int = 4, attempts: int = 3
) -> list[SampleRequest]:
    return [
        SampleRequest(prompt, rng.randint(1, 14), slot, rng.getrandbits(64))
        for slot in range(slots)
        for prompt in prompts(each, rng)
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
def test_a_completion_does_not_depend_on_what_is_sampled_beside_it(
    family: str, sampling: SamplingParams, tokenizer: Any, device: str
) -> None:
    engine = tiny_engine(tokenizer, family, device=device)
    requests = sample_requests(Random(2))
    together = engine.sample(requests, sampling)
    one_by_one = [engine.sample([request], sampling)[0] for request in requests]
    assert same(together, one_by_one)
    shuffled = list(range(len(requests)))
    Random(3).shuffle(shuffled)
    again = engine.sample([requests[number] for number in shuffled], sampling)
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
    completions = together.sample(requests, sampling)
    assert sorted(set(layouts[0])) == at_first and assigned and (moved or len(at_first) == 2)
    assert same(completions, apart.sample(requests, sampling))


def test_decode_batches_that_are_kept_share_their_memory_and_change_no_text(
    tokenizer: Any,
) -> None:
    """As on a GPU: a batch is compacted into a smaller one that has its keys and values in the same
    place, and the next call finds all of them again."""
    rng = Random(23)
    calls = [
        [
            SampleRequest(prompt, rng.randint(2, longest), slot, rng.getrandbits(64))
            for slot in (0, 1, 2)
            for prompt in prompts(8, rng)
            for _ in range(3)
        ]
        for longest in (90, 30)
    ]
    apart, together = (tiny_engine(tokenizer, max_num_seqs=count) for count in (999, 64))
    pool = together.decode_batches
    pool.on_gpu = pool.in_blocks = True
    sampling = SamplingParams(1.0, frozenset([5]))
    made: list[int] = []
    for requests in calls * 2:
        assert same(together.sample(requests, sampling), apart.sample(requests, sampling))
        made.append(len(pool.kept))
    assert 3 < made[1] == made[3]
    keys = [batch.cache.by_layer[1].keys for batch in pool.kept.values()]
    assert len({tensor.data_ptr() for tensor in keys if tensor is not None}) == 1
    assert pool.memory.tokens == max(
        tensor[:, 0, :, 0].numel() for tensor in keys if tensor is not None
    )


@pytest.mark.parametrize(("max_num_seqs", "slots"), [(48, 48), (64, 63), (75, 72), (200, 126)])
def test_sequence_slots_on_a_cpu_are_in_blocks_only_where_few_are_lost(
    max_num_seqs: int, slots: int
) -> None:
    requests = [SampleRequest((5, 6, 7), 2, slot, seed) for slot in range(3) for seed in range(42)]
    scheduler = Scheduler(requests, max_num_seqs, max_prefill_tokens=999, in_blocks=False)
    assert len(scheduler.slot_adapters) == slots


def test_a_request_has_no_temperature_of_zero(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="own temperature must be above zero"):
        tiny_engine(tokenizer).sample(
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
    expected = plain.sample(requests, sampling)
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
    assert same(ahead.sample(requests, sampling), expected)
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
    with pytest.raises(ConfigError, match=said + ". Lower propose.max_tokens"):
        engine.sample(sample_requests(Random(2)), SamplingParams())


def test_every_request_is_sampled_at_its_own_temperature(tokenizer: Any, device: str) -> None:
    engine = tiny_engine(tokenizer, device=device)
    requests = sample_requests(Random(5))
    mixed = [
        replace(request, temperature=(None, 0.3, 1.7)[number % 3])
        for number, request in enumerate(requests)
    ]
    alone = {
        temperature: engine.sample(requests, SamplingParams(temperature))
        for temperature in (1.0, 0.3, 1.7)
    }
    completions = engine.sample(mixed, SamplingParams(1.0))
    assert same(
        completions, [alone[(1.0, 0.3, 1.7)[number % 3]][number] for number in range(len(requests))]
    )
    assert not same(completions, alone[1.0])


def test_the_same_requests_give_the_same_bits(tokenizer: Any, device: str) -> None:
    engine = tiny_engine(tokenizer, device=device)
    requests = sample_requests(Random(4))
    assert engine.sample(requests, SamplingParams()) == engine.sample(requests, SamplingParams())


def test_attempts_at_one_prompt_share_its_computation_and_differ(
    tokenizer: Any, device: str
) -> None:
    engine = tiny_engine(tokenizer, device=device, max_num_seqs=32)
    requests = [
        SampleRequest((5, 6, 7, 8, 9), 12, slot, seed) for slot in range(3) for seed in range(8)
    ]
    completions = engine.sample(requests, SamplingParams())
    assert engine.generated is not None and engine.generated.shared_frac == pytest.approx(7 / 8)
    assert len({completion.tokens for completion in completions}) > 20


def test_sampled_tokens_follow_the_models_probabilities(tokenizer: Any, device: str) -> None:
    engine = tiny_engine(tokenizer, device=device, max_num_seqs=4096)
    prompt = (5, 6, 7)
    completions = engine.sample(
        [SampleRequest(prompt, 1, 1, seed) for seed in range(4000)], SamplingParams()
    )
    with torch.no_grad():
        hidden = engine.forward.sequences(
            torch.tensor([prompt], device=device),
            torch.arange(3, device=device)[None],
            None,
            engine.forward.routing([1]),
        )
        probs = torch.softmax(engine.forward.logits(hidden)[0, -1], -1).cpu()
    counts = torch.bincount(
        torch.tensor([completion.tokens[0] for completion in completions]), minlength=VOCABULARY
    )
    spread = (4000 * probs * (1 - probs)).sqrt().clamp(min=1)
    assert ((counts - 4000 * probs).abs() / spread).max() < 5


def test_stops_and_limits_are_kept(device: str) -> None:
    base = load_base("pawn", device=device)
    engine = TorchEngine(base, 1, EngineConfig(decode_steps_per_sync=5), LoraConfig(rank=4))
    prompt = tuple(
        base.tokenizer(
            ">>student code_o\n>>program\ndef f(xs):\n    return xs + [5]\n>>input\n[1, 2]\n>>answer\n"
        )["input_ids"]
    )
    (whole,) = engine.sample(
        [SampleRequest(prompt, 60)], SamplingParams(0.0, base.stops([">>end"])[0])
    )
    text = base.decode(list(whole.tokens))
    assert text.endswith(">>output\n[1, 2, 5]\n") and whole.finish_reason == "stop"
    (cut,) = engine.sample([SampleRequest(prompt, 60)], SamplingParams(0.0, stop_texts=("2, 5",)))
    assert base.decode(list(cut.tokens)) == text.partition("2, 5")[0] + "2, 5"
    assert cut.finish_reason == "stop"
    (short,) = engine.sample([SampleRequest(prompt, 4)], SamplingParams(0.0))
    assert (
        len(short.tokens) == len(short.logprobs) == 4
        and short.finish_reason == "length"
        and short.tokens == whole.tokens[:4]
    )
