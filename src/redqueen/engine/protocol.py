"""Engines: what samples from members and trains them. The port and its records are here; they need
no torch.

A slot is a place for one member's weights. Rows name the slot they belong to, and nothing else of
the population.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One text to be continued by one member. Rows with the same slot and prompt share its
    computation."""

    prompt: tuple[int, ...]
    max_tokens: int
    slot: int = 0
    seed: int = 0
    """The row's own random stream: what it draws depends on nothing else."""
    temperature: float | None = None
    """Its own; otherwise the call's. Where the call takes the likeliest token, all rows do."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    temperature: float = 1.0
    """Zero takes the likeliest token each time."""
    stop_tokens: frozenset[int] = frozenset()
    stop_texts: tuple[str, ...] = ()
    """A row ends where it has written one of these."""
    top_p: float = 1.0
    """Draw from the likeliest tokens that together have this probability."""


@dataclass(frozen=True, slots=True)
class Completion:
    tokens: tuple[int, ...]
    """What was written, a stop token included."""
    logprobs: tuple[float, ...]
    """Of each token when it was drawn, at the sampling temperature; before top-p."""
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class TrainSample:
    """A completion that a member wrote, and how much better than expected it was."""

    slot: int
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    advantage: float | tuple[float, ...]
    """One for all tokens, or one for each."""
    logprobs: tuple[float, ...] = ()
    """As they were sampled; needed for clipping, and for the report of the gap."""
    temperature: float = 1.0
    """At which it was sampled."""


@dataclass(frozen=True, slots=True)
class TrainSettings:
    learning_rates: Mapping[int, float] = field(default_factory=dict)
    """By slot, where a member has its own."""
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.99
    grad_clip: float = 1.0
    """Largest norm of one member's gradient."""
    clip_low: float | None = None
    """PPO's clipping of the ratio from below (1 - clip_low); None leaves the plain policy gradient."""
    clip_high: float | None = None
    kl: float = 0.0
    """Weight of the divergence from the base."""
    optimizer_steps: int = 1
    """The rows are dealt out to so many steps."""


@dataclass(frozen=True, slots=True)
class MemberStats:
    """What one member's training did."""

    rows: int
    tokens: int
    loss: float
    grad_norm: float
    entropy: float
    logprob_gap: float
    """Mean difference between log-probabilities as sampled and as computed in training."""
    logprob_gap_max: float
    kl: float
    clipped_frac: float


@dataclass(frozen=True, slots=True)
class TrainStats:
    members: dict[int, MemberStats]
    broken: frozenset[int]
    """Slots whose gradient was not finite: from that optimizer step on nothing was changed there."""
    skipped_rows: int
    """Rows without any advantage: they cost nothing."""
    tokens: int
    """Computed, prompts and padding included."""
    padding_frac: float
    shared_frac: float
    """Tokens that did not have to be computed because rows share a prompt, as a share of all."""
    seconds: float
    peak_gb: float


OnFinish = Callable[[Sequence[tuple[int, Completion]]], None]
"""Told which rows have ended since the last time, by number, with what was written."""


class Engine(Protocol):
    def generate(
        self, rows: Sequence[SampleRequest], sampling: SamplingParams, on_finish: OnFinish
    ) -> list[Completion]: ...

    def train(self, rows: Sequence[TrainSample], settings: TrainSettings) -> TrainStats: ...

    def read(self, slot: int) -> Any: ...

    def write(self, slot: int, weights: Any, *, reset_optimizer: bool) -> None: ...

    def distances(self, first: int, count: int) -> list[list[float]]:
        """How far the members in so many slots from the first one on are apart, as products B A."""
        ...

    def save(self, path: Path) -> None: ...

    def load(self, path: Path) -> None: ...

    def save_weights(self, path: Path) -> None:
        """All members' weights, without what only training needs."""
        ...
