"""CPU and GPU agree: the same greedy texts, log-probabilities and gradients within float32's
rounding."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from redqueen.engine.protocol import Completion, SampleRequest, SamplingParams, TrainSample
from redqueen.engine.torch.engine import TorchEngine
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.models.base import load_base
from redqueen.pawn.heldout import load_suite
from redqueen.tasks.code import KINDS
from redqueen.tasks.prompts import load_prompt_format
from tests.contract.tiny import gradients

pytestmark = pytest.mark.gpu
MEMBERS = 3


def engine_on(device: str) -> TorchEngine:
    """Pawn in float32, with members that differ from it and from each other."""
    engine = TorchEngine(load_base("pawn", device=device, dtype="float32"), MEMBERS)
    generator = torch.Generator().manual_seed(0)
    for slot in range(MEMBERS):
        adapter = engine.read(slot)
        projections = {
            name: LoraPair(a, torch.randn(b.shape, generator=generator) * 0.01)
            for name, (a, b) in adapter.projections.items()
        }
        changed = Adapter(projections, adapter.rank, adapter.alpha)
        engine.write(slot, changed, reset_optimizer=True)
    return engine


@pytest.fixture(scope="module")
def engines() -> tuple[TorchEngine, TorchEngine]:
    return engine_on("cpu"), engine_on("cuda")


@pytest.fixture(scope="module")
def requests(engines: Any) -> list[SampleRequest]:
    prompt_format, tokenizer = load_prompt_format("compact"), engines[0].tokenizer
    problems = [item.problem for item in load_suite("heldout-quick")[::12]]
    prompts = [
        tokenizer.encode(prompt_format.render(KINDS[problem.kind].ask_answer(problem)))
        for problem in problems
    ]
    return [
        SampleRequest(prompt, 40, slot, seed)
        for slot in range(MEMBERS)
        for seed, prompt in enumerate(prompts)
    ]


def largest_gap(some: Sequence[Completion], others: Sequence[Completion]) -> float:
    return max(
        abs(a - b)
        for one, other in zip(some, others, strict=True)
        for a, b in zip(one.logprobs, other.logprobs, strict=True)
    )


def test_greedy_texts_are_the_same_and_log_probabilities_agree(
    engines: tuple[TorchEngine, TorchEngine], requests: list[SampleRequest]
) -> None:
    sampling = SamplingParams(0.0, engines[0].tokenizer.stops(())[0])
    cpu, gpu = (engine.sample(requests, sampling) for engine in engines)
    assert [done.tokens for done in gpu] == [done.tokens for done in cpu]
    assert [done.finish_reason for done in gpu] == [done.finish_reason for done in cpu]
    assert largest_gap(cpu, gpu) < 1e-3


def test_gradients_agree(
    engines: tuple[TorchEngine, TorchEngine], requests: list[SampleRequest]
) -> None:
    sampling = SamplingParams(1.0, engines[0].tokenizer.stops(())[0])
    samples = [
        TrainSample(one.slot, one.prompt, done.tokens, (-1.0) ** number, done.logprobs)
        for number, (one, done) in enumerate(
            zip(requests, engines[0].sample(requests, sampling), strict=True)
        )
    ]
    cpu, gpu = (gradients(engine, samples) for engine in engines)
    assert float((cpu - gpu).norm() / cpu.norm()) < 1e-3
