"""Requests, completions and samples as columns: a few arrays instead of thousands of tuples, which
is what passes between processes.

Prompts that several rows share are passed once. Numbers arrive as they were, to the bit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isnan, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redqueen.engine.protocol import Completion, SampleRequest, TrainSample
from redqueen.models.adapter import Adapter, LoraPair

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Sequences of different lengths, one after another."""

    lengths: Ints
    values: NDArray[Any]

    @staticmethod
    def of(rows: Sequence[Sequence[Any]], dtype: Any) -> "Ragged":
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        values = np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum()))
        return Ragged(lengths, values)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        values, end = self.values.tolist(), 0
        for length in self.lengths.tolist():
            start, end = end, end + length
            yield tuple(values[start:end])


@dataclass(frozen=True, slots=True)
class Prompts:
    """Every prompt once, and which one each row has."""

    texts: Ragged
    numbers: Ints

    @staticmethod
    def of(prompts: Sequence[tuple[int, ...]]) -> "Prompts":
        unique = {prompt: number for number, prompt in enumerate(dict.fromkeys(prompts))}
        numbers = np.fromiter((unique[prompt] for prompt in prompts), np.int32, len(prompts))
        return Prompts(Ragged.of(list(unique), np.int32), numbers)

    def rows(self) -> list[tuple[int, ...]]:
        texts = list(self.texts.rows())
        return [texts[number] for number in self.numbers.tolist()]


@dataclass(frozen=True, slots=True)
class Requests:
    prompts: Prompts
    max_tokens: Ints
    slots: Ints
    seeds: NDArray[np.uint64]
    temperatures: Floats
    """NaN where a request has none of its own."""

    @staticmethod
    def of(requests: Sequence[SampleRequest], first: int) -> "Requests":
        """`first`: the slot that is the receiver's slot 0."""
        count = len(requests)
        temperatures = (nan if r.temperature is None else r.temperature for r in requests)
        return Requests(
            Prompts.of([r.prompt for r in requests]),
            np.fromiter((r.max_tokens for r in requests), np.int32, count),
            np.fromiter((r.slot - first for r in requests), np.int32, count),
            np.fromiter((r.seed & _SEED for r in requests), np.uint64, count),
            np.fromiter(temperatures, np.float64, count),
        )

    def unpack(self) -> list[SampleRequest]:
        columns = (self.max_tokens, self.slots, self.seeds, self.temperatures)
        return [
            SampleRequest(prompt, most, slot, seed, None if isnan(temperature) else temperature)
            for prompt, most, slot, seed, temperature in zip(
                self.prompts.rows(), *(column.tolist() for column in columns), strict=True
            )
        ]


_SEED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Completions:
    """Some that have finished, each with its request's position in the call."""

    places: Ints
    tokens: Ragged
    logprobs: Floats
    stopped: NDArray[np.bool_]

    @staticmethod
    def of(finished: Sequence[tuple[int, Completion]]) -> "Completions":
        count = len(finished)
        tokens = Ragged.of([completion.tokens for _, completion in finished], np.int32)
        logprobs = chain.from_iterable(completion.logprobs for _, completion in finished)
        stops = (completion.finish_reason == "stop" for _, completion in finished)
        return Completions(
            np.fromiter((place for place, _ in finished), np.int32, count),
            tokens,
            np.fromiter(logprobs, np.float64, len(tokens.values)),
            np.fromiter(stops, np.bool_, count),
        )

    def unpack(self) -> Iterator[tuple[int, Completion]]:
        logprobs = Ragged(self.tokens.lengths, self.logprobs).rows()
        rows = zip(self.places.tolist(), self.tokens.rows(), logprobs, self.stopped, strict=True)
        for place, tokens, logprob, stopped in rows:
            yield place, Completion(tokens, logprob, "stop" if stopped else "length")


@dataclass(frozen=True, slots=True)
class Samples:
    slots: Ints
    prompts: Prompts
    completions: Ragged
    advantages: Ragged
    """One for all tokens, or one per token."""
    per_token: NDArray[np.bool_]
    logprobs: Ragged
    temperatures: Floats
    targets: Ragged

    @property
    def tokens(self) -> int:
        """A prompt that several share counts once."""
        return len(self.prompts.texts.values) + len(self.completions.values)

    @staticmethod
    def of(samples: Sequence[TrainSample], first: int) -> "Samples":
        count = len(samples)
        advantages = [s.advantage for s in samples]
        return Samples(
            np.fromiter((s.slot - first for s in samples), np.int32, count),
            Prompts.of([s.prompt for s in samples]),
            Ragged.of([s.completion for s in samples], np.int32),
            Ragged.of([a if isinstance(a, tuple) else (a,) for a in advantages], np.float64),
            np.fromiter((isinstance(a, tuple) for a in advantages), np.bool_, count),
            Ragged.of([s.logprobs for s in samples], np.float64),
            np.fromiter((s.temperature for s in samples), np.float64, count),
            Ragged.of([s.targets for s in samples], np.int32),
        )

    def unpack(self) -> list[TrainSample]:
        rows: Iterable[Any] = zip(
            self.slots.tolist(),
            self.prompts.rows(),
            self.completions.rows(),
            self.advantages.rows(),
            self.per_token,
            self.logprobs.rows(),
            self.temperatures.tolist(),
            self.targets.rows(),
            strict=True,
        )
        return [
            TrainSample(slot, prompt, tokens, given if each else given[0], *others)
            for slot, prompt, tokens, given, each, *others in rows
        ]


@dataclass(frozen=True, slots=True)
class AdapterArrays:
    projections: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
    rank: int
    alpha: float

    @staticmethod
    def of(adapter: Adapter) -> "AdapterArrays":
        pairs = {name: (a.numpy(), b.numpy()) for name, (a, b) in adapter.projections.items()}
        return AdapterArrays(pairs, adapter.rank, adapter.alpha)

    def unpack(self) -> Adapter:
        from torch import tensor  # only where weights are handled

        pairs = {name: LoraPair(tensor(a), tensor(b)) for name, (a, b) in self.projections.items()}
        return Adapter(pairs, self.rank, self.alpha)
