"""What a worker does: one engine with as many slots as the largest block, in which blocks take
turns."""

import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol

from redqueen.engine.blocks.columns import AdapterArrays, Completions, Requests, Samples
from redqueen.engine.protocol import (
    BaseInfo,
    Engine,
    Loss,
    Sampler,
    SamplingParams,
    TrainStats,
)

Emit = Callable[[Completions], None]
"""Receives completions while a call is under way."""


@dataclass(frozen=True, slots=True)
class Call:
    """A method of the worker, or else of its engine, and its arguments. Slots are places in the
    block."""

    name: str
    arguments: tuple[Any, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it changes the block: after a worker's death it has to be made again."""
        return self.name not in _PURE

    @property
    def needs_block(self) -> bool:
        """Whether it is about members, and not about the bare base."""
        return self.name != "sample_bare"


_PURE = {"sample", "sample_bare", "read", "read_optimizer", "distances", "save"}


@dataclass(slots=True)
class Usage:
    """What a worker has done."""

    sampled_tokens: int = 0
    trained_tokens: int = 0
    sample_s: float = 0.0
    train_s: float = 0.0
    filled_s: float = 0.0
    """Sampling seconds times the share of sequence slots that were busy."""
    memory_gb: float = math.nan
    """The most at a time."""

    def add(self, other: "Usage") -> None:
        self.sampled_tokens += other.sampled_tokens
        self.trained_tokens += other.trained_tokens
        self.sample_s += other.sample_s
        self.train_s += other.train_s
        self.filled_s += other.filled_s
        known = [gb for gb in (self.memory_gb, other.memory_gb) if not math.isnan(gb)]
        self.memory_gb = max(known, default=math.nan)

    def clear(self) -> None:
        for part in fields(self):
            setattr(self, part.name, part.default)


@dataclass(frozen=True, slots=True)
class Hello:
    """What a worker is, as it says itself when it is ready."""

    base: BaseInfo
    parameters_each: int
    end_tokens: frozenset[int]
    """Of the base: without weights nobody else knows them."""
    pid: int
    host: str

    @staticmethod
    def of(engine: Engine) -> "Hello":
        ends, _ = engine.tokenizer.stops(())
        return Hello(engine.base, engine.parameters_each, ends, os.getpid(), platform.node())


class HostedEngine(Engine, Protocol):
    """An engine whose blocks can take turns."""

    def state(self) -> Any:
        """Everything that training changes, as a copy."""
        ...

    def restore(self, state: Any) -> None:
        """None: as if there had been no block before."""
        ...

    def read_optimizer(self, slot: int) -> Any: ...

    def write_optimizer(self, slot: int, state: Any) -> None: ...

    @property
    def fill(self) -> float:
        """Share of sequence slots that were busy in the last call of `sample`."""
        ...

    @property
    def memory_gb(self) -> float:
        """The most that was in use; NaN where it is not known."""
        ...


class BlockWorker:
    def __init__(self, engine: HostedEngine) -> None:
        self.engine = engine
        self.usage = Usage()
        """Of the last call."""
        self._bare: Sampler | None = None
        self._resting: dict[int, Any] = {}
        self._block = -1
        self._changed = False

    def call(self, block: int, call: Call, emit: Emit) -> Any:
        self.usage = Usage()
        if not call.needs_block:
            return self.sample_bare(emit, *call.arguments)
        self._take_turn(block)
        self._changed |= call.changes
        if call.name == "sample":
            return self.sample(emit, *call.arguments)
        method = getattr(self, call.name, None) or getattr(self.engine, call.name)
        return method(*call.arguments)

    def _take_turn(self, block: int) -> None:
        if block == self._block:
            return
        if self._changed:
            self._resting[self._block] = self.engine.state()
        self.engine.restore(self._resting.get(block))
        self._block, self._changed = block, False

    def forget(self) -> None:
        """As if the block had never been here."""
        self._resting.pop(self._block, None)
        self.engine.restore(None)
        self._changed = False

    def sample(self, emit: Emit, requests: Requests, sampling: SamplingParams) -> None:
        self._sample(self.engine, emit, requests, sampling)
        self.usage.filled_s = self.usage.sample_s * self.engine.fill

    def sample_bare(self, emit: Emit, requests: Requests, sampling: SamplingParams) -> None:
        self._bare = self._bare or self.engine.bare()
        self._sample(self._bare, emit, requests, sampling)

    def _sample(
        self, sampler: Sampler, emit: Emit, requests: Requests, sampling: SamplingParams
    ) -> None:
        started = time.monotonic()
        completions = sampler.sample(
            requests.unpack(), sampling, lambda finished: emit(Completions.of(finished))
        )
        self.usage.sampled_tokens = sum(len(completion.tokens) for completion in completions)
        self.usage.sample_s = time.monotonic() - started
        self.usage.memory_gb = self.engine.memory_gb

    def accumulate(self, samples: Samples, loss: Loss, kl: float) -> TrainStats:
        stats = self.engine.accumulate(samples.unpack(), loss, kl)
        self.usage.trained_tokens, self.usage.train_s = stats.tokens, stats.seconds
        self.usage.memory_gb = self.engine.memory_gb
        return stats

    def read(self, slot: int) -> AdapterArrays:
        return AdapterArrays.of(self.engine.read(slot))

    def write(self, slot: int, adapter: AdapterArrays, reset_optimizer: bool) -> None:
        self.engine.write(slot, adapter.unpack(), reset_optimizer=reset_optimizer)


class Inline:
    """A worker in this process."""

    number = 0
    is_remote = False
    restarts = 0

    def __init__(self, engine: HostedEngine) -> None:
        self.worker, self.hello = BlockWorker(engine), Hello.of(engine)
        self.usage = Usage()

    def call(self, block: int, call: Call, emit: Emit) -> Any:
        result = self.worker.call(block, call, emit)
        self.usage.add(self.worker.usage)
        return result

    def forget(self, block: int) -> None:
        """All blocks are its own."""

    def kill(self) -> None:
        """It is this process."""

    def close(self) -> None:
        self.worker.engine.close()
