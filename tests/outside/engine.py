"""A second engine behind the port: no language model, one number a member.

Members read the prompt as text. As teachers they pose sums; as students they know the total with a
probability that their adapter sets, and policy gradients raise it. Weights are numpy arrays; torch
only differentiates the loss, which is a function of tensors.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np

from redqueen.engine.protocol import (
    BaseInfo,
    Completion,
    EngineSpec,
    Loss,
    OnFinish,
    OptimizerSettings,
    SampleRequest,
    SamplingParams,
    SlotStats,
    StepStats,
    TrainSample,
    TrainStats,
)
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.models.peft_io import load_adapter, save_adapter
from redqueen.tasks.prompts import Prompt

SIZE, RANK = 4, 2


class Bytes:
    """A tokenizer whose tokens are bytes."""

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        return tuple(prompt.text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode()

    def stops(self, texts: Iterable[str]) -> tuple[frozenset[int], tuple[str, ...]]:
        return frozenset(), tuple(dict.fromkeys(texts))


@dataclass
class Batch:
    """What a loss sees: one token a sample."""

    logprobs: Any
    sampled_logprobs: Any
    advantages: Any

    def sequence_mean(self, values: Any) -> Any:
        return values


class TinyEngine:
    def __init__(self, slots: int) -> None:
        self.a = np.zeros((slots, SIZE, RANK), dtype=np.float32)
        self.b = np.zeros((slots, RANK, SIZE), dtype=np.float32)
        self.grads = np.zeros_like(self.b)
        self.steps = np.zeros(slots, dtype=int)
        self.base = BaseInfo(
            "tiny", "none", 0, "float32", "cpu", "no hardware", "compact", False, 1 << 20
        )
        self.tokenizer = Bytes()

    @classmethod
    def create(cls, spec: EngineSpec) -> Self:
        return cls(spec.slots)

    @property
    def slots(self) -> int:
        return len(self.a)

    @property
    def parameters_each(self) -> int:
        return 2 * SIZE * RANK

    def bare(self) -> "TinyEngine":
        return TinyEngine(self.slots)

    def checkpointed(self, folder: Path) -> None:
        pass

    def close(self) -> None:
        pass

    # sampling

    def skill(self, slot: int) -> float:
        """Log-odds of a correct answer; 0 for a new adapter."""
        return float((self.a[slot] @ self.b[slot]).sum())

    def sample(
        self,
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,
        on_finish: OnFinish = lambda finished: None,
    ) -> list[Completion]:
        completions = [self._complete(request, sampling) for request in requests]
        on_finish(list(enumerate(completions)))
        return completions

    def _complete(self, request: SampleRequest, sampling: SamplingParams) -> Completion:
        rng, prompt = Random(request.seed), bytes(request.prompt).decode()
        logprob = 0.0
        if prompt.startswith(">>teacher"):
            terms = [str(rng.randint(1, 99)) for _ in range(rng.randint(2, 4))]
            text = f">>sum\n{' + '.join(terms)}\n>>end"
        else:
            knows = 1 / (1 + math.exp(-self.skill(request.slot)))
            correct = knows >= 0.5 if sampling.temperature == 0 else rng.random() < knows
            total = _total(prompt) + (not correct)
            text = f">>total\n{total}\n>>end"
            logprob = math.log(knows if correct else 1 - knows)
        tokens = tuple(text.encode())
        return Completion(tokens, (logprob, *[0.0] * (len(tokens) - 1)), "stop")

    # learning

    def accumulate(self, samples: Sequence[TrainSample], loss: Loss, kl: float = 0.0) -> TrainStats:
        import torch

        by_slot: dict[int, list[TrainSample]] = {}
        for sample in samples:
            if sample.has_gradient:
                by_slot.setdefault(sample.slot, []).append(sample)
        stats = {}
        for slot, own in by_slot.items():
            b = torch.tensor(self.b[slot], requires_grad=True)
            skill = (torch.tensor(self.a[slot]) @ b).sum()
            sampled = torch.tensor([sample.logprobs[0] for sample in own], dtype=torch.float32)
            logprobs = torch.where(
                torch.tensor([_is_correct(sample) for sample in own]),
                torch.nn.functional.logsigmoid(skill),
                torch.nn.functional.logsigmoid(-skill),
            )
            logprobs = torch.where(sampled == 0, 0 * skill, logprobs)  # proposals have no choice
            advantages = torch.tensor([sample.advantage for sample in own], dtype=torch.float32)
            losses = loss.per_token(Batch(logprobs, sampled, advantages)).mean()
            losses.backward()
            assert b.grad is not None
            self.grads[slot] += b.grad.numpy()
            tokens = sum(len(sample.completion) for sample in own)
            stats[slot] = SlotStats(
                len(own), tokens, float(losses.detach()), 0.0, 0.0, 0.0, 0.0, 0.0
            )
        return TrainStats(stats, 0, 0.0, 0.0, 0.0, math.nan)

    def step(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
        norms = {slot: float(np.linalg.norm(self.grads[slot])) for slot in slots}
        for slot, settings in slots.items():
            self.b[slot] -= settings.learning_rate * self.grads[slot]
            self.steps[slot] += 1
        self.grads[:] = 0
        return StepStats(norms, frozenset())

    # adapters

    def new(self, slot: int, seed: int) -> None:
        self.a[slot] = np.random.default_rng(seed).random((SIZE, RANK)) + 0.5
        self.b[slot] = 0
        self.steps[slot] = 0

    def read(self, slot: int) -> Adapter:
        import torch

        pair = LoraPair(torch.tensor(self.a[slot]), torch.tensor(self.b[slot]))
        return Adapter({"skill": pair}, RANK, RANK)

    def write(self, slot: int, adapter: Adapter, *, reset_optimizer: bool) -> None:
        pair = adapter.projections["skill"]
        self.a[slot], self.b[slot] = pair.a.numpy(), pair.b.numpy()
        if reset_optimizer:
            self.steps[slot] = 0

    def copy_optimizer(self, source: int, target: int) -> None:
        self.steps[target] = self.steps[source]

    def distances(self, first: int, count: int) -> list[list[float]]:
        deltas = (self.a @ self.b)[first : first + count]
        return [[float(np.linalg.norm(x - y)) for y in deltas] for x in deltas]

    def save(self, folder: Path, names: Mapping[int, str]) -> list[Path]:
        """One PEFT folder a member, so that others read members without this engine."""
        files = []
        for slot, name in names.items():
            own = folder / "adapters" / name
            files += save_adapter(self.read(slot), own, base="tiny", fingerprint="none")
        optimizer = folder / "optimizer.json"
        optimizer.write_text(json.dumps(self.steps.tolist()))
        return [file.relative_to(folder) for file in (*files, optimizer)]

    def load(self, folder: Path, names: Mapping[int, str]) -> None:
        for slot, name in names.items():
            self.write(slot, load_adapter(folder / "adapters" / name), reset_optimizer=False)
        self.steps = np.array(json.loads((folder / "optimizer.json").read_text()))


def _total(prompt: str) -> int:
    terms = re.search(r">>sum\n(.+)\n", prompt)
    assert terms, prompt
    return sum(map(int, terms[1].split(" + ")))


def _is_correct(sample: TrainSample) -> bool:
    """Of two answers with equal probability only the text says which one it was."""
    prompt, text = bytes(sample.prompt).decode(), bytes(sample.completion).decode()
    return not prompt.startswith(">>teacher") and text == f">>total\n{_total(prompt)}\n>>end"
