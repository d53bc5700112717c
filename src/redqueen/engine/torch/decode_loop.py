"""Sampling from many adapters at once: prefill, decode steps and the transfer of what has finished.

The scheduler (scheduler.py) decides which request sits in which sequence slot; this module carries
it out on tensors. Every few steps the host syncs with the device to see which sequences have
finished; in between it asks nothing of the device and does nothing per sequence in Python. Finished
completions are built while the next steps run, and on a GPU the next prompts are prefilled in the
meantime, too.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redqueen.engine.protocol import Completion, OnFinish, SampleRequest, SamplingParams
from redqueen.engine.torch.cache import PromptKV
from redqueen.engine.torch.cores import CORES
from redqueen.engine.torch.decode_batch import DecodeBatchPool
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.memory import PrefillTooLarge, is_out_of_memory
from redqueen.engine.torch.prefill_queue import Entry, PromptGroup
from redqueen.engine.torch.routing import put
from redqueen.engine.torch.sample_stats import SampleStats
from redqueen.engine.torch.sampling import sample_tokens
from redqueen.engine.torch.scheduler import Moves, Scheduler
from redqueen.engine.torch.stop_texts import StopTexts
from redqueen.engine.torch.stopwatch import Stopwatch

_WINDOW = 64
"""Attention reads a multiple of this many positions, enough for the longest sequence."""
_WINDOW_GPU = 128
"""The same on a GPU, where every window has a CUDA graph of its own."""
_LENGTH_GPU = 512
"""Sequence slots on a GPU hold a multiple of this many tokens, so that batches can be reused."""


@dataclass(frozen=True, slots=True)
class PrefillOutput:
    """Keys and values of a batch of prompts, and the logits after each, [prompts, vocabulary]."""

    keys_values: PromptKV
    logits: Tensor


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """Sequences that finished between two syncs, on their way from the device."""

    requests: list[int]
    counts: list[int]
    """Tokens of each completion."""
    by_text: list[bool]
    """Whether a stop text ended it; otherwise the last token tells the finish reason."""
    tokens: Tensor
    """[sequences, longest]"""
    logprobs: Tensor
    transferred: torch.cuda.Event | None


class DecodeLoop:
    """One call of the sampler."""

    def __init__(
        self,
        forward: Forward,
        pool: DecodeBatchPool,
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,
        max_num_seqs: int,
        steps_per_sync: int,
        max_prefill_tokens: int,
    ) -> None:
        self.forward, self.pool, self.requests, self.sampling = forward, pool, requests, sampling
        self.steps_per_sync = steps_per_sync
        self.device = forward.base.device
        self.scheduler = Scheduler(requests, max_num_seqs, max_prefill_tokens, pool.in_blocks)
        self.stop_texts = StopTexts(forward.base, sampling.stop_texts, steps_per_sync)
        self.length = max_sequence_length(requests, self.device)
        if forward.has_kv_ranges:
            self.window = self.length  # every sequence's own range is read, whatever the window
        else:
            self.window = _WINDOW_GPU if self.device.type == "cuda" else _WINDOW
        self.batch = pool.get(self.scheduler.slot_adapters, self.length, self.scheduler.block)
        self.max_position = 0
        """Upper bound of the positions of all running sequences."""
        self.completions: list[Completion | None] = [None] * len(requests)
        self.prefilled_tokens = self.slot_steps = self.running_steps = 0
        self.prefills, self.deliver_s = Stopwatch(self.device), 0.0

    def run(self, on_finish: OnFinish) -> tuple[list[Completion], SampleStats]:
        started = time.monotonic()
        finished: FinishedBatch | None = None
        while not self.scheduler.done:
            self._admit()
            reach = self.max_position + self.steps_per_sync + 1
            window = min(self.length, _round_up(reach, self.window))
            for _ in range(self.steps_per_sync):
                self.batch.step(window, self.sampling)
                CORES.adapt()
            if self.pool.prefetches:
                for groups in self.scheduler.prefetch():
                    self._prefill(groups)
            if finished:
                self._deliver(finished, on_finish)
            finished = self._sync()
            self._compact()
        if finished:
            self._deliver(finished, on_finish)
        completions = [completion for completion in self.completions if completion is not None]
        prompt_tokens = sum(len(request.prompt) for request in self.requests)
        stats = SampleStats(
            tokens=sum(len(completion.tokens) for completion in completions),
            prompt_tokens=prompt_tokens,
            shared_frac=1 - self.prefilled_tokens / prompt_tokens,
            idle_frac=1 - self.running_steps / max(1, self.slot_steps),
            seconds=time.monotonic() - started,
            prefill_s=self.prefills.seconds(),
            deliver_s=self.deliver_s,
        )
        return completions, stats

    def _deliver(self, finished: FinishedBatch, on_finish: OnFinish) -> None:
        completions, started = self._complete(finished), time.monotonic()
        on_finish(completions)
        self.deliver_s += time.monotonic() - started

    # requests enter

    def _admit(self) -> None:
        admission = self.scheduler.admit()
        if admission is None:
            return
        if admission.moves:
            self.batch.move(*self._move_indices(admission.moves))
        if admission.reassigned:
            self.batch.assign(self.scheduler.slot_adapters)
        for entries in admission.batches:
            if entries[0].group.prefill is None:
                self._prefill([entry.group for entry in entries])
            self._start(entries)

    def _prefill(self, groups: Sequence[PromptGroup]) -> None:
        """Prefill the prompts of these groups in one forward pass, padded on the right."""
        sizes = np.array([len(group.prompt) for group in groups])
        ids = np.zeros((len(groups), sizes.max()), dtype=np.int64)
        for index, group in enumerate(groups):
            ids[index, : len(group.prompt)] = group.prompt
        self.prefilled_tokens += int(sizes.sum())
        keys_values = PromptKV(self.forward.layers)
        adapters = [group.adapter for group in groups]
        try:
            with self.prefills.running():
                routing = self.forward.routing(adapters, ids.shape[1])
                logits = self.forward.prefill(
                    self._put(ids), self._put(sizes - 1), keys_values, routing
                )
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise PrefillTooLarge from error
            raise
        CORES.adapt()
        output = PrefillOutput(keys_values, logits)
        for index, group in enumerate(groups):
            group.prefill, group.index = output, index

    def _start(self, entries: Sequence[Entry]) -> None:
        """Requests whose prompts were in one prefill batch start in their sequence slots, with
        their first token."""
        output = entries[0].group.prefill
        assert isinstance(output, PrefillOutput)
        counts = [len(entry.requests) for entry in entries]
        requests = [self.requests[number] for entry in entries for number in entry.requests]
        seq_slots = self._put(np.array([slot for entry in entries for slot in entry.seq_slots]))
        source = self._put(np.repeat([entry.group.index for entry in entries], counts))
        sizes = np.repeat([len(entry.group.prompt) for entry in entries], counts)
        self.max_position = max(self.max_position, int(sizes.max()))
        batch = self.batch
        batch.cache.fill(seq_slots, output.keys_values, source)
        seeds, max_tokens, positions = self._put(
            np.array(
                [
                    [_as_signed(request.seed) for request in requests],
                    [request.max_tokens for request in requests],
                    sizes,
                ]
            )
        )
        default = self.sampling.temperature
        temperatures = put(
            torch.tensor(
                [
                    default if request.temperature is None else request.temperature
                    for request in requests
                ],
                dtype=torch.float32,
            ),
            self.device,
        )
        tokens, logprobs = sample_tokens(
            output.logits[source], self.sampling, temperatures, seeds, torch.zeros_like(seq_slots)
        )
        batch.seeds[seq_slots], batch.max_tokens[seq_slots] = seeds, max_tokens
        batch.positions[seq_slots], batch.temperatures[seq_slots] = positions, temperatures
        batch.out_tokens[seq_slots, 0], batch.out_logprobs[seq_slots, 0] = tokens, logprobs
        batch.tokens[seq_slots] = tokens
        batch.num_generated[seq_slots] = 1
        stopped = batch.is_stop_token(tokens, self.sampling)
        batch.running[seq_slots] = ~stopped & (max_tokens > 1)

    # requests leave

    def _sync(self) -> FinishedBatch | None:
        """See which sequences have finished, free their slots, begin to fetch their tokens."""
        running, num_generated, positions = self.batch.sync()
        in_use = self.scheduler.running()
        self.slot_steps += len(running) * self.steps_per_sync
        self.running_steps += len(in_use) * self.steps_per_sync
        self.max_position = int(positions[in_use].max(initial=0))
        finished = in_use[running[in_use] == 0]
        cuts = self.stop_texts.find(self.batch.out_tokens, in_use, num_generated[in_use])
        if cuts:
            finished = np.union1d(finished, list(cuts))
            self.batch.running[self._put(np.array(list(cuts)))] = False
        if not len(finished):
            return None
        seq_slots: list[int] = finished.tolist()
        counts = [cuts.get(slot, int(num_generated[slot])) for slot in seq_slots]
        index, longest = self._put(finished), max(counts)
        batch = FinishedBatch(
            self.scheduler.finish(finished),
            counts,
            [slot in cuts for slot in seq_slots],
            self._fetch(self.batch.out_tokens[index, :longest]),
            self._fetch(self.batch.out_logprobs[index, :longest]),
            torch.cuda.Event() if self.device.type == "cuda" else None,
        )
        if batch.transferred is not None:
            batch.transferred.record()
        return batch

    def _complete(self, finished: FinishedBatch) -> list[tuple[int, Completion]]:
        if finished.transferred is not None:
            finished.transferred.synchronize()
        completions = []
        for request, count, by_text, tokens, logprobs in zip(
            finished.requests,
            finished.counts,
            finished.by_text,
            finished.tokens.numpy(),
            finished.logprobs.numpy(),
            strict=True,
        ):
            generated = tuple(tokens[:count].tolist())
            stopped = by_text or generated[-1] in self.sampling.stop_tokens
            completion = Completion(
                generated, tuple(logprobs[:count].tolist()), "stop" if stopped else "length"
            )
            self.completions[request] = completion
            completions.append((request, completion))
        return completions

    def _compact(self) -> None:
        moves = self.scheduler.compact()
        if moves:
            smaller = self.pool.get(self.scheduler.slot_adapters, self.length, self.scheduler.block)
            smaller.copy_from(self.batch, *self._move_indices(moves))
            self.batch = smaller

    # transfers

    def _put(self, values: NDArray[np.int64]) -> Tensor:
        return put(torch.from_numpy(values), self.device)

    def _move_indices(self, moves: Moves) -> tuple[Tensor, Tensor]:
        return self._put(moves.source), self._put(moves.target)

    def _fetch(self, values: Tensor) -> Tensor:
        """A copy on the host, there once the event recorded after it has come."""
        if self.device.type != "cuda":
            return values
        return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(
            values, non_blocking=True
        )


def max_sequence_length(requests: Sequence[SampleRequest], device: torch.device) -> int:
    """Tokens that a sequence slot has room for: the longest request, rounded up."""
    longest = max(len(request.prompt) + request.max_tokens for request in requests)
    return _round_up(longest, _LENGTH_GPU if device.type == "cuda" else _WINDOW)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _as_signed(seed: int) -> int:
    """A 64-bit seed as torch holds it."""
    seed &= (1 << 64) - 1
    return seed - (1 << 64) if seed >= 1 << 63 else seed
