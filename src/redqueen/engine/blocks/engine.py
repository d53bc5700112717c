"""The engine of many workers: calls are split by block, results are put together again.

What a block computes follows from its own calls, so nothing that comes of a call depends on how
many workers there are, which one had a block, or whether one has died in the meantime.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from redqueen.engine.blocks.balance import Balancer
from redqueen.engine.blocks.columns import AdapterArrays, Completions, Requests, Samples
from redqueen.engine.blocks.crew import Crew, Receive, Recruiter, Worker
from redqueen.engine.blocks.layout import BlockLayout, Placement
from redqueen.engine.blocks.redo_log import Names, RedoLog
from redqueen.engine.blocks.worker import Call
from redqueen.engine.merge_stats import mean_gaps, mean_ratio
from redqueen.engine.protocol import (
    Adapter,
    BaseInfo,
    Completion,
    Loss,
    OnFinish,
    OptimizerSettings,
    SampleRequest,
    SamplingParams,
    StepStats,
    Tokenizer,
    TrainSample,
    TrainStats,
)
from redqueen.engine.saving import EXACT, CheckpointContent
from redqueen.engine.usage import Usage

REDO_BYTES = 2 << 30
"""A redo log that is larger than this makes a checkpoint worth its time."""


class Watch(Protocol):
    """Is told of every call, for measurements."""

    def begins(self) -> None: ...

    def ends(self, name: str, seconds: Mapping[int, float]) -> None:
        """`seconds`: of each block."""
        ...


class BlockEngine:
    def __init__(
        self,
        layout: BlockLayout,
        workers: Sequence[Worker],
        tokenizer: Tokenizer,
        redo: RedoLog | None = None,
        recruit: Recruiter = lambda has, number: None,
        saving: CheckpointContent = EXACT,
    ) -> None:
        """`redo`: that of the workers, where they can be lost; `recruit`: where more can join."""
        self.layout, self.tokenizer, self.saving = layout, tokenizer, saving
        self._crew, self._redo = Crew(len(layout.sizes), workers, recruit), redo or RedoLog()
        # weights, gradients and two moments
        self.balancer = Balancer(16.0 * layout.largest * self.parameters_each)
        self.watch: Watch | None = None
        self._saved: Names = {}
        self._with_gradients: set[int] = set()

    @property
    def workers(self) -> list[Worker]:
        return self._crew.workers

    def placements(self) -> list[Placement]:
        """Where blocks are at this moment."""
        layout, workers = self.layout, map(self._crew.worker_of, range(len(self.layout.sizes)))
        return [
            Placement(block, first, size, one.number, one.hello.host, one.hello.base.hardware)
            for block, (first, size, one) in enumerate(
                zip(layout.firsts, layout.sizes, workers, strict=True)
            )
        ]

    @property
    def wants_checkpoint(self) -> bool:
        """Whether calls since the last one take much memory, and would take long to make again."""
        return self._redo.bytes > REDO_BYTES

    @property
    def base(self) -> BaseInfo:
        return self.workers[0].hello.base

    @property
    def slots(self) -> int:
        return self.layout.slots

    @property
    def parameters_each(self) -> int:
        return self.workers[0].hello.parameters_each

    def sample(
        self,
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,
        on_finish: OnFinish = lambda finished: None,
    ) -> list[Completion]:
        blocks = self.layout.split(range(len(requests)), lambda number: requests[number].slot)
        return self._sample("sample", blocks, requests, sampling, on_finish)

    def bare(self) -> "_Bare":
        return _Bare(self)

    def sample_bare(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams, on_finish: OnFinish
    ) -> list[Completion]:
        """In as many parts as there are blocks: their number does not depend on the workers."""
        size = math.ceil(len(requests) / len(self.layout.sizes))
        numbers = range(len(requests))
        starts = range(0, len(requests), size or 1)
        blocks = {block: numbers[start : start + size] for block, start in enumerate(starts)}
        return self._sample("sample_bare", blocks, requests, sampling, on_finish)

    def _sample(
        self,
        name: str,
        blocks: Mapping[int, Sequence[int]],
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,
        on_finish: OnFinish,
    ) -> list[Completion]:
        completions: dict[int, Completion] = {}

        def receive(block: int, columns: Completions) -> None:
            finished = [
                (blocks[block][place], completion) for place, completion in columns.unpack()
            ]
            # what a worker had finished when it died comes a second time, the same
            finished = [item for item in finished if item[0] not in completions]
            completions.update(finished)
            if finished:
                on_finish(finished)

        calls = {}
        for block, numbers in blocks.items():
            own = [requests[number] for number in numbers]
            first = self.layout.firsts[block] if name == "sample" else 0
            calls[block] = Call(name, (Requests.of(own, first), sampling))
        self._run(calls, receive)
        return [completions[number] for number in range(len(requests))]

    def accumulate(self, samples: Sequence[TrainSample], loss: Loss, kl: float = 0.0) -> TrainStats:
        calls = {
            block: Call("accumulate", (Samples.of(own, self.layout.firsts[block]), loss, kl))
            for block, own in self.layout.split(samples, lambda sample: sample.slot).items()
        }
        self._with_gradients |= set(calls)
        tokens = {block: call.arguments[0].tokens for block, call in calls.items()}
        if len(self.workers) > 1:
            self._balance(tokens)
        stats = self._run(calls)
        self.balancer.trained(tokens, self._crew.seconds)
        return _merge([self._with_slots(block, stats[block]) for block in calls])

    def _balance(self, tokens: Mapping[int, int]) -> None:
        before = self._crew.places
        places = self.balancer.place(tokens, before)
        if blocks := sum(worker != before[block] for block, worker in places.items()):
            started = time.monotonic()
            size = self._crew.move(places)
            self.balancer.moved(size, blocks, time.monotonic() - started)

    def _with_slots(self, block: int, stats: TrainStats) -> TrainStats:
        first = self.layout.firsts[block]
        return replace(stats, slots={first + slot: own for slot, own in stats.slots.items()})

    def step(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
        named = self.layout.split(slots, lambda slot: slot)
        calls = {
            block: Call("step", ({slot - first: slots[slot] for slot in named.get(block, ())},))
            for block, first in enumerate(self.layout.firsts)
            if block in named or block in self._with_gradients
        }
        stats = self._run(calls)
        self._with_gradients.clear()
        norms, diverged = dict[int, float](), set[int]()
        for block in calls:
            first = self.layout.firsts[block]
            norms |= {first + slot: norm for slot, norm in stats[block].grad_norms.items()}
            diverged |= {first + slot for slot in stats[block].diverged}
        return StepStats(norms, frozenset(diverged))

    def new(self, slot: int, seed: int) -> None:
        self._call(slot, "new", seed)

    def read(self, slot: int) -> Adapter:
        adapter: AdapterArrays = self._call(slot, "read")
        return adapter.unpack()

    def write(self, slot: int, adapter: Adapter, *, reset_optimizer: bool) -> None:
        self._call(slot, "write", AdapterArrays.of(adapter), reset_optimizer)

    def copy_optimizer(self, source: int, target: int) -> None:
        self._call(target, "write_optimizer", self._call(source, "read_optimizer"))

    def distances(self, first: int, count: int) -> list[list[float]]:
        block, place = self.layout.find(first)
        if place + count <= self.layout.sizes[block]:
            distances: list[list[float]] = self._call(first, "distances", count)
            return distances
        from redqueen.models.distances import adapter_distances

        return adapter_distances([self.read(slot) for slot in range(first, first + count)])

    def save(self, folder: Path, names: Mapping[int, str]) -> list[Path]:
        saved = self.layout.split_names(names)
        files = self._run({block: Call("save", (folder, own)) for block, own in saved.items()})
        self._saved = saved
        return [file for block in saved for file in files[block]]

    def load(self, folder: Path, names: Mapping[int, str]) -> None:
        blocks = self.layout.split_names(names)
        self._run({block: Call("load", (folder, own)) for block, own in blocks.items()})

    def checkpointed(self, folder: Path) -> None:
        self._redo.checkpointed(folder, self._saved)
        self._crew.follow()  # now a block can move without a call being made again

    def metrics(self) -> dict[str, float]:
        """Of all workers together, whose seconds add up, and of each remote one, by names such as
        `time/worker/0/fill`."""
        total, metrics = Usage(), dict[str, float]()
        for worker in self.workers:
            usage = worker.usage.take()
            total.add(usage)
            if not worker.is_remote:
                continue
            values = {
                "sampled_per_s": usage.sampled_tokens / (usage.sample_s or math.nan),
                "trained_per_s": usage.trained_tokens / (usage.train_s or math.nan),
                "busy_s": usage.sample_s + usage.train_s,
                "fill": usage.filled_s / (usage.sample_s or math.nan),
                "memory_gb": usage.memory_gb,
                "restarts": float(worker.restarts),
            }
            metrics |= {
                f"time/worker/{worker.number}/{name}": value
                for name, value in values.items()
                if not math.isnan(value)
            }
        return total.metrics() | metrics

    def close(self) -> None:
        self._crew.close()

    def _call(self, slot: int, name: str, *arguments: Any) -> Any:
        """A call about one slot."""
        block, place = self.layout.find(slot)
        return self._run({block: Call(name, (place, *arguments))})[block]

    def _run(
        self, calls: Mapping[int, Call], receive: Receive = lambda block, columns: None
    ) -> dict[int, Any]:
        if self.watch is None or not calls:
            return self._crew.run(calls, receive)
        self.watch.begins()
        results = self._crew.run(calls, receive)
        self.watch.ends(next(iter(calls.values())).name, self._crew.seconds)
        return results


class _Bare:
    """The frozen base, on all workers."""

    def __init__(self, engine: BlockEngine) -> None:
        self.engine = engine

    def sample(
        self,
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,
        on_finish: OnFinish = lambda finished: None,
    ) -> list[Completion]:
        return self.engine.sample_bare(requests, sampling, on_finish)


def _merge(parts: Sequence[TrainStats]) -> TrainStats:
    """Of blocks that were trained side by side."""
    tokens = sum(part.tokens for part in parts)
    unpadded = sum(part.tokens * (1 - part.padding_frac) for part in parts)
    unshared = sum(part.tokens * (1 - part.padding_frac) / (1 - part.shared_frac) for part in parts)
    return TrainStats(
        slots={slot: stats for part in parts for slot, stats in part.slots.items()},
        tokens=tokens,
        padding_frac=1 - unpadded / tokens if tokens else 0.0,
        shared_frac=1 - unpadded / unshared if unshared else 0.0,
        seconds=_most(part.seconds for part in parts),
        peak_gb=_most(part.peak_gb for part in parts),
        cores=_most(part.cores for part in parts),
        ratio=mean_ratio(parts),
        gap_by_position=mean_gaps(parts),
        micro_batches=sum(part.micro_batches for part in parts),
        out_of_memory=sum(part.out_of_memory for part in parts),
        blocks=tuple(parts),
    )


def _most(values: Iterable[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
