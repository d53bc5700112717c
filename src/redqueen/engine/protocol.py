"""The engine port: what samples from members and trains them, and the records it exchanges with the
rest. None of this needs torch.

A slot is a place for one member's adapter. Requests and samples name the slot they belong to, and
nothing else of the population.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.config.registry import Registry
from redqueen.engine.saving import EXACT, CheckpointContent
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.tasks.prompts import Prompt

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Adapter", "LoraPair"]  # part of the port, defined below the engines


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One prompt to be completed by one member. Requests with the same slot and prompt share its
    prefill."""

    prompt: tuple[int, ...]
    max_tokens: int
    slot: int = 0
    seed: int = 0
    """Of the request's own random stream: its tokens do not depend on the rest of the batch."""
    temperature: float | None = None
    """Overrides the call's temperature, except where that is zero (greedy)."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    temperature: float = 1.0
    """Zero is greedy decoding."""
    stop_tokens: frozenset[int] = frozenset()
    stop_texts: tuple[str, ...] = ()
    """A completion ends as soon as it contains one of these."""
    top_p: float = 1.0
    """Sample from the likeliest tokens that together have this probability."""


@dataclass(frozen=True, slots=True)
class Completion:
    tokens: tuple[int, ...]
    """A stop token included."""
    logprobs: tuple[float, ...]
    """Of each token, at the sampling temperature, before top-p."""
    finish_reason: Literal["stop", "length"]


OnFinish = Callable[[Sequence[tuple[int, Completion]]], None]
"""Receives completions as they finish, each with its request's position in the call."""


def _ignore(finished: Sequence[tuple[int, Completion]]) -> None:
    pass


class Sampler(Protocol):
    def sample(
        self,
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,
        on_finish: OnFinish = _ignore,
    ) -> list[Completion]:
        """One completion per request, in order. `on_finish` gets each of them once, earlier."""
        ...


@dataclass(frozen=True, slots=True)
class TrainSample:
    """A completion that a member sampled, and its advantage."""

    slot: int
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    advantage: float | tuple[float, ...]
    """One for all tokens, or one per token. Samples with none but zeros are skipped."""
    logprobs: tuple[float, ...] = ()
    """Per token, as sampled. Without them, losses take the policy for unchanged (ratio 1)."""
    temperature: float = 1.0
    """At which it was sampled."""
    targets: tuple[int, ...] = ()
    """What is predicted in place of each completion token, where that is another token."""

    @property
    def has_gradient(self) -> bool:
        advantages = self.advantage if isinstance(self.advantage, tuple) else (self.advantage,)
        return bool(self.completion) and any(advantages)


class LossBatch(Protocol):
    """The tokens of one micro-batch that are trained on, from all its completions: every tensor is
    [tokens]. Completions of several members stand one after another; a loss treats every token
    alike, so it needs to know neither."""

    @property
    def logprobs(self) -> "Tensor":
        """Under the policy as it is now; the gradient flows through these."""
        ...

    @property
    def sampled_logprobs(self) -> "Tensor":
        """When the token was sampled. Where unknown, a copy of `logprobs` without gradient."""
        ...

    @property
    def advantages(self) -> "Tensor": ...

    def sequence_mean(self, values: "Tensor") -> "Tensor":
        """Each token gets the mean of `values` over its completion."""
        ...


Average = Literal["tokens", "sequences", "sum"] | int
"""How per-token losses add up to a member's loss. `tokens`: the mean over all its tokens.
`sequences`: the mean over its completions of each one's token mean. `sum`: the sum over all its
tokens. A number: the mean over its completions of each one's sum, divided by that constant."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A policy loss with its settings bound. See `redqueen.stages.update.losses`."""

    per_token: "Callable[[LossBatch], Tensor]"
    average: Average = "tokens"


@dataclass(frozen=True, slots=True)
class SlotStats:
    """Training statistics of one slot. Means are over its trained tokens."""

    samples: int
    tokens: int
    loss: float
    entropy: float
    logprob_gap: float
    """Mean absolute difference of log-probabilities as sampled and as trained; NaN without any."""
    logprob_gap_max: float
    kl: float
    """Estimated KL divergence from the base; zero unless it is part of the loss."""
    clipped_frac: float
    """Tokens with an advantage but no gradient: the loss clipped them."""


@dataclass(frozen=True, slots=True)
class TrainStats:
    slots: Mapping[int, SlotStats]
    """Of those that have a gradient now."""
    tokens: int
    """Computed, prompts and padding included."""
    padding_frac: float
    shared_frac: float
    """Prompt tokens that were not computed again because completions share them, of all tokens."""
    seconds: float
    peak_gb: float
    cores: float = math.nan
    """That computed it at the end; NaN if it was not the CPU."""
    ratio: float = math.nan
    """Mean over tokens of their probability as recomputed over that as sampled, with 2 as the most;
    NaN if none were given."""
    gap_by_position: Mapping[int, float] = field(default_factory=dict)
    """The log-probability gap of tokens from this place of their completion on, up to the next."""
    micro_batches: int = 0
    out_of_memory: int = 0
    """Times that it was computed again with less at a time."""
    blocks: "tuple[TrainStats, ...]" = ()
    """Of each block, where slots were computed in several."""


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """AdamW."""

    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.99
    grad_clip: float = 1.0
    """Largest norm of one member's gradient."""
    eps: float = 1e-8


@dataclass(frozen=True, slots=True)
class StepStats:
    grad_norms: Mapping[int, float]
    """Before clipping."""
    diverged: frozenset[int]
    """Slots whose gradient was not finite. Nothing was changed there."""


class Learner(Protocol):
    def accumulate(self, samples: Sequence[TrainSample], loss: Loss, kl: float = 0.0) -> TrainStats:
        """Forward and backward. Gradients are kept per slot and add up until `step`. A member's
        loss is averaged over its own samples of this call, so other members do not change it. `kl`
        is the weight of the KL divergence from the base."""
        ...

    def step(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
        """One optimizer step for each named slot. The gradients of all slots are cleared."""
        ...


class AdapterStore(Protocol):
    @property
    def slots(self) -> int: ...

    @property
    def parameters_each(self) -> int:
        """Weights of one adapter."""
        ...

    def new(self, slot: int, seed: int) -> None:
        """Put a fresh adapter into the slot: A is random, B zero, so it equals the base."""
        ...

    def read(self, slot: int) -> Adapter: ...

    def write(self, slot: int, adapter: Adapter, *, reset_optimizer: bool) -> None:
        """An adapter with another alpha is rescaled; one with another rank or other projections is
        refused."""
        ...

    def copy_optimizer(self, source: int, target: int) -> None:
        """Give a slot the optimizer state of another."""
        ...

    def distances(self, first: int, count: int) -> list[list[float]]:
        """Frobenius distances between the weight updates (scale * A B) of `count` slots from
        `first` on: [count][count]."""
        ...

    def save(self, folder: Path, names: Mapping[int, str]) -> list[Path]:
        """Write the named slots: a PEFT folder `adapters/NAME` for each, and its optimizer's state
        beside it, as `optimizer/NAME.safetensors`. Returns all files, relative to the folder."""
        ...

    def checkpointed(self, folder: Path) -> None:
        """What `save` wrote last is here until the next call of this: lost workers need it."""
        ...

    def load(self, folder: Path, names: Mapping[int, str]) -> None:
        """Restore the named slots from what `save` wrote, weights and optimizer, to the bit."""
        ...


@runtime_checkable
class TakesSnapshots(Protocol):
    """An engine whose members can be written while it goes on."""

    def snapshot(self, names: Mapping[int, str]) -> Callable[[Path], list[Path]]:
        """A copy of the named slots. What is returned writes it as `save` does, in any thread."""
        ...


@dataclass(frozen=True, slots=True)
class BaseInfo:
    """What the rest needs to know of the base model, as plain values."""

    name: str
    fingerprint: str
    """Of its weights."""
    parameters: int
    dtype: str
    device: str
    """Such as cpu or cuda:0."""
    hardware: str
    """The device in words, for the record."""
    prompt_format: str
    """The prompt format it understands best."""
    has_chat_template: bool
    context: int
    """Most tokens of prompt and completion together."""

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


class Tokenizer(Protocol):
    def encode(self, prompt: Prompt) -> tuple[int, ...]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def stops(self, texts: Iterable[str]) -> tuple[frozenset[int], tuple[str, ...]]:
        """Stop tokens and stop texts for `SamplingParams`, so that generation ends at any of the
        texts, or where the model ends its turn."""
        ...


class Engine(Sampler, Learner, AdapterStore, Protocol):
    @property
    def base(self) -> BaseInfo: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    def bare(self) -> Sampler:
        """Samples from the frozen base without any adapter; slots are ignored."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine is made from."""

    base: str
    slots: int
    lora: LoraConfig = field(default_factory=LoraConfig)
    config: EngineConfig = field(default_factory=EngineConfig)
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    seed: int = 0
    fingerprint: str = ""
    """That the base must have, where adapters were trained on it before."""
    worlds: tuple[int, ...] = ()
    """Slots of each world, which stand one after another; none: all are of one."""
    saving: CheckpointContent = EXACT


class EngineType(Protocol):
    """A row of `ENGINES`: a class that makes its own instances."""

    def create(self, spec: EngineSpec) -> Engine: ...


ENGINES: Registry[EngineType] = Registry(
    "engine",
    {
        "torch": "redqueen.engine.torch.engine:TorchEngine",
        "processes": "redqueen.engine.blocks.processes:ProcessEngine",
        "ray": "redqueen.engine.blocks.ray:RayEngine",
    },
)


def create_engine(name: str, spec: EngineSpec) -> Engine:
    """An engine by its name in the table, or by import path."""
    return ENGINES[name].create(spec)
