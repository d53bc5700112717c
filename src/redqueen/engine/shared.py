"""The port of an engine whose slots belong to people who do not know of each other, as `redqueen
serve` has them: each accumulates and steps in its own time, and is told the log-probabilities of
what it sent. None of this needs torch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from redqueen.config.registry import import_path
from redqueen.engine.protocol import (
    Engine,
    EngineSpec,
    Loss,
    OptimizerSettings,
    StepStats,
    TrainSample,
)
from redqueen.errors import ConfigError

_SHARED = {"torch": "redqueen.engine.torch.shared:SharedTorchEngine"}


@dataclass(frozen=True, slots=True)
class Scored:
    """What a pass over samples gives back to whoever sent them."""

    logprobs: tuple[tuple[float, ...], ...]
    """Of each sample, in order: of every token but the first, given all before it."""
    losses: Mapping[int, float]
    """By slot."""


class SharedEngine(Engine, Protocol):
    @property
    def vocabulary(self) -> int:
        """Token ids are below this."""
        ...

    def seed_after(self, seed: int, tokens: int) -> int:
        """The seed with which a request goes on that has generated so many tokens: what follows is
        what would have followed."""
        ...

    def score(self, samples: Sequence[TrainSample], loss: Loss, *, backward: bool) -> Scored:
        """Log-probabilities and losses. With `backward`, gradients are added as `accumulate`
        does."""
        ...

    def step_only(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
        """As `step`, but the gradients of other slots stay as they are."""
        ...

    def clear_gradients(self, slots: Iterable[int]) -> None: ...

    def read_gradients(self, slot: int) -> object:
        """A copy of them, in the host's memory, for `write_gradients`."""
        ...

    def write_gradients(self, slot: int, gradients: object) -> None: ...


def create_shared_engine(spec: EngineSpec) -> SharedEngine:
    name = spec.config.type
    if name not in _SHARED and ":" not in name:
        raise ConfigError(
            f"the engine '{name}' cannot be shared by tenants: it does not return "
            f"log-probabilities of training. Use {', '.join(_SHARED)}."
        )
    engine: SharedEngine = import_path("engine", _SHARED.get(name, name)).create(spec)
    return engine
