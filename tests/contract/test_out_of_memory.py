"""Where the GPU's memory ends, the engine goes on with less at a time. Memory ends here when a test
says so: on a machine without a GPU nothing else is different."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
import torch

from redqueen.engine.protocol import Completion, SampleRequest, SamplingParams
from redqueen.engine.torch import population
from redqueen.engine.torch.decode_batch import DecodeBatch
from redqueen.engine.torch.engine import TorchEngine
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.memory import is_out_of_memory
from redqueen.errors import ConfigError
from redqueen.models.base import load_base
from tests.contract.tiny import REINFORCE, prompts, tiny_engine, train_samples

LAYERS = 2 * 7
"""Adapted projections of the tiny base."""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


def fail_backward(monkeypatch: pytest.MonkeyPatch, most_tokens: int, times: int = 99) -> list[int]:
    """Memory ends in the middle of a backward pass over more tokens than these: half of the layers
    have added their gradients. Returns what is told the sizes that failed."""
    function = population._AdaptedLinearFunction
    backward: Callable[..., Any] = function.backward
    calls, failed = 0, list[int]()

    def full(ctx: Any, *grads: torch.Tensor) -> Any:
        nonlocal calls
        tokens = grads[0].shape[0] * grads[0].shape[1]
        calls = calls + 1 if tokens > most_tokens else 0
        if calls == LAYERS // 2 and len(failed) < times:
            calls = 0
            failed.append(tokens)
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return backward(ctx, *grads)

    monkeypatch.setattr(function, "backward", staticmethod(full))
    return failed


def grads(engine: TorchEngine) -> torch.Tensor:
    assert engine.population is not None
    return engine.population.grads.clone()


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_micro_batch_that_does_not_fit_is_halved_and_every_sample_counts_once(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, checkpointing: bool
) -> None:
    samples, more = train_samples(Random(3), [0, 1, 2]), train_samples(Random(4), [0, 2])
    whole, small, disturbed = (
        tiny_engine(
            tokenizer, max_tokens_per_microbatch=tokens, gradient_checkpointing=checkpointing
        )
        for tokens in (400, 50, 400)
    )
    for engine in (whole, small, disturbed):
        engine.accumulate(more, REINFORCE)  # what a call finds there stays as it is
    expected, halved = (engine.accumulate(samples, REINFORCE) for engine in (whole, small))
    failed = fail_backward(monkeypatch, 60)
    stats = disturbed.accumulate(samples, REINFORCE)
    assert failed and stats.out_of_memory == len(failed)
    assert disturbed.limits.max_tokens_per_microbatch < 100
    assert disturbed.limits.max_num_seqs == whole.limits.max_num_seqs
    assert torch.allclose(grads(disturbed), grads(whole), rtol=1e-4, atol=1e-6)
    assert {slot: own.samples for slot, own in stats.slots.items()} == {
        slot: own.samples for slot, own in expected.slots.items()
    }
    assert expected.micro_batches < stats.micro_batches
    assert expected.out_of_memory == halved.out_of_memory == 0


def test_after_halving_it_is_as_if_the_limit_had_always_been_so(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = train_samples(Random(5), [0, 1])
    total = sum(len(sample.prompt) + len(sample.completion) for sample in samples)
    small = tiny_engine(tokenizer, max_tokens_per_microbatch=total // 2)
    disturbed = tiny_engine(tokenizer, max_tokens_per_microbatch=10**6)
    small.accumulate(samples, REINFORCE)
    fail_backward(monkeypatch, 0, times=1)
    disturbed.accumulate(samples, REINFORCE)
    assert torch.equal(grads(disturbed), grads(small))
    assert disturbed.limits.max_tokens_per_microbatch == total // 2


def test_a_sample_that_does_not_fit_alone_ends_with_the_settings_to_change(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tiny_engine(tokenizer)
    fail_backward(monkeypatch, 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**9, 2 * 10**9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 10**9)
    with pytest.raises(
        ConfigError, match=r"solve.max_tokens .*tokens does not fit alone.*gradient"
    ):
        engine.accumulate(train_samples(Random(6), [0]), REINFORCE)


def requests_of(rng: Random) -> list[SampleRequest]:
    return [
        SampleRequest(prompt, rng.randint(4, 12), slot, rng.getrandbits(63))
        for prompt in prompts(6, rng)
        for slot in range(3)
    ]


def sample_once(engine: TorchEngine, requests: Sequence[SampleRequest]) -> list[Completion]:
    """Every completion is handed over once, and is the one that is returned."""
    seen: dict[int, Completion] = {}

    def receive(finished: Sequence[tuple[int, Completion]]) -> None:
        for number, completion in finished:
            assert number not in seen
            seen[number] = completion

    completions = engine.sample(requests, SamplingParams(), receive)
    assert [seen[number] for number in range(len(requests))] == completions
    return completions


def test_sampling_that_does_not_fit_goes_on_with_smaller_batches_and_the_same_texts(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = requests_of(Random(7))
    expected = sample_once(tiny_engine(tokenizer, max_num_seqs=12), requests)
    engine = tiny_engine(tokenizer, max_num_seqs=12)
    step, prefill, steps = DecodeBatch.step, Forward.prefill, 0

    def full_decode(self: DecodeBatch, *args: Any) -> None:
        nonlocal steps
        steps += 1
        if steps > 8 and len(self.slot_adapters) > 6:  # some have finished by then
            raise RuntimeError("capture failed") from torch.OutOfMemoryError()
        step(self, *args)

    def full_prefill(self: Forward, ids: torch.Tensor, *args: Any) -> Any:
        if ids.numel() > 30:
            raise torch.OutOfMemoryError
        return prefill(self, ids, *args)

    monkeypatch.setattr(DecodeBatch, "step", full_decode)
    monkeypatch.setattr(Forward, "prefill", full_prefill)
    completions = sample_once(engine, requests)
    assert [c.tokens for c in completions] == [c.tokens for c in expected]
    assert engine.limits.max_num_seqs <= 6 and engine.limits.max_prefill_tokens <= 30
    assert engine.limits.max_tokens_per_microbatch == engine.config.max_tokens_per_microbatch
    assert engine.metrics()["time/sample/out_of_memory"] >= 2
    assert "time/sample/out_of_memory" not in engine.metrics()


def test_other_errors_are_not_taken_for_a_full_memory(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory\nsee the log"))
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))

    def broken(*args: Any) -> None:
        raise RuntimeError("of our own")

    engine = tiny_engine(tokenizer)
    monkeypatch.setattr(DecodeBatch, "step", broken)
    with pytest.raises(RuntimeError, match="of our own"):
        engine.sample(requests_of(Random(8)), SamplingParams())
    assert engine.limits == engine.config.limits
