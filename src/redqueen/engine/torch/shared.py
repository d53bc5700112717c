"""The engine on torch for tenants: one block of all slots, log-probabilities of training, and steps
of some slots that leave the gradients of others alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from redqueen.engine.protocol import EngineSpec, Loss, OptimizerSettings, StepStats, TrainSample
from redqueen.engine.shared import Scored, SharedEngine
from redqueen.engine.torch.cores import set_threads
from redqueen.engine.torch.engine import TorchEngine
from redqueen.engine.torch.memory import explain_device
from redqueen.engine.torch.sampling import continue_stream
from redqueen.engine.torch.scoring import score, score_and_accumulate
from redqueen.models.base import load_base


class SharedTorchEngine(TorchEngine):
    @classmethod
    def create(cls, spec: EngineSpec) -> SharedEngine:
        set_threads(spec.config.threads)
        base = load_base(spec.base, device=spec.device, dtype=spec.dtype)
        base.check(spec.fingerprint)
        return cls(base, spec.slots, spec.config, spec.lora, spec.seed)

    @property
    def vocabulary(self) -> int:
        embedding: Any = self.loaded.model.get_input_embeddings()
        return int(embedding.weight.shape[0])

    def seed_after(self, seed: int, tokens: int) -> int:
        return continue_stream(seed, tokens)

    def score(self, samples: Sequence[TrainSample], loss: Loss, *, backward: bool) -> Scored:
        self._check_slots(sample.slot for sample in samples)
        limits = self.limits.max_tokens_per_microbatch, self.config.share_prompts
        with self._cores(), explain_device("engine.max_tokens_per_microbatch"):
            if backward:
                return score_and_accumulate(self.forward, self._members(), samples, loss, *limits)
            return score(self.forward, samples, loss, *limits)

    def step_only(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
        self._check_slots(slots)
        assert self.optimizer is not None
        with self._cores(), explain_device():
            return self.optimizer.step_only(slots)

    def clear_gradients(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._members().grads[slot] = 0

    def read_gradients(self, slot: int) -> object:
        return self._members().grads[slot].to("cpu", copy=True)

    def write_gradients(self, slot: int, gradients: object) -> None:
        assert isinstance(gradients, torch.Tensor)
        self._members().grads[slot].copy_(gradients)
