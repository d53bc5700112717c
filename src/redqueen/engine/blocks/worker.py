"""What a worker does: one engine with as many slots as the largest block, in which blocks take
turns."""

import os
import pickle
import platform
from collections.abc import Callable
from dataclasses import dataclass
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
from redqueen.engine.usage import Usage

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


_PURE = {"sample", "sample_bare", "read", "read_optimizer", "distances", "save", "pack"}


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
    def usage(self) -> Usage:
        """Since it was last taken, with what its bare base has done."""
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
        result = self._call(block, call, emit)
        self.usage = self.engine.usage.take()
        return result

    def _call(self, block: int, call: Call, emit: Emit) -> Any:
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

    def pack(self) -> bytes:
        """The block as it is, for another worker. A driver that passes it on needs no torch."""
        return pickle.dumps(self.engine.state(), pickle.HIGHEST_PROTOCOL)

    def unpack(self, block: bytes) -> None:
        self.engine.restore(pickle.loads(block))

    def sample(self, emit: Emit, requests: Requests, sampling: SamplingParams) -> None:
        self._sample(self.engine, emit, requests, sampling)

    def sample_bare(self, emit: Emit, requests: Requests, sampling: SamplingParams) -> None:
        self._bare = self._bare or self.engine.bare()
        self._sample(self._bare, emit, requests, sampling)

    def _sample(
        self, sampler: Sampler, emit: Emit, requests: Requests, sampling: SamplingParams
    ) -> None:
        sampler.sample(requests.unpack(), sampling, lambda finished: emit(Completions.of(finished)))

    def accumulate(self, samples: Samples, loss: Loss, kl: float) -> TrainStats:
        return self.engine.accumulate(samples.unpack(), loss, kl)

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

    def hand_over(self, block: int) -> bytes | None:
        """There is nobody else."""

    def take_over(self, block: int, packed: bytes) -> None:
        """There is nobody to have it from."""

    def kill(self) -> None:
        """It is this process."""

    def close(self) -> None:
        self.worker.engine.close()
