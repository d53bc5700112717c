"""Packs training samples into micro-batches.

Completions of one prompt are packed into one sequence behind it. Each sees the prompt and itself,
and the prompt is computed once. Two rows, with the completions a and b of p, and c of q:

    ids           p p p a a b b b    q q c . . . . .    . is padding
    segment       0 0 0 1 1 2 2 2    0 0 1 - - - - -    a token sees 0 and its own
    positions     0 1 2 3 4 3 4 5    0 1 2 3 4 5 6 7    every completion follows the prompt
    column        0 1 2 3 4 5 6 7    0 1 2 3 4 5 6 7
    predicted by        2 3 2 5 6        1              the prompt's last token predicts the first
                                                        one of every completion
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from redqueen.engine.protocol import TrainSample
from redqueen.engine.torch.routing import put


@dataclass(slots=True)
class PackedSequence:
    """A prompt followed by completions of it."""

    slot: int
    prompt: tuple[int, ...]
    size: int
    """In tokens."""
    samples: list[TrainSample] = field(default_factory=list)

    @property
    def segments(self) -> list[tuple[int, ...]]:
        """The prompt, then each completion."""
        return [self.prompt, *(sample.completion for sample in self.samples)]

    def add(self, sample: TrainSample) -> None:
        self.samples.append(sample)
        self.size += len(sample.completion)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Packed sequences, padded to one length, sorted by slot. `targets` counts the completion
    tokens of all of them: those that are trained on."""

    row_slots: list[int]
    """[rows]"""
    ids: Tensor
    """[rows, length]"""
    positions: Tensor
    """[rows, length]"""
    mask: Tensor | None
    """[rows, 1, length, length]; None for the plain causal mask, if no prompt is shared."""
    predicted_by: Tensor
    """[targets]: the flat place in [rows * length] whose output predicts the target."""
    targets: Tensor
    """[targets]: token ids."""
    slots: Tensor
    """[targets]"""
    advantages: Tensor
    """[targets]"""
    sampled_logprobs: Tensor
    """[targets]; NaN if unknown."""
    temperatures: Tensor
    """[targets]"""
    lengths: Tensor
    """[completions]: targets of each."""
    unpadded: int
    """Tokens that are not padding."""
    sequences: list[PackedSequence]
    """The rows as they were packed."""


def split_microbatches(
    samples: Sequence[TrainSample], max_tokens: int, share_prompts: bool, device: torch.device
) -> Iterator[MicroBatch]:
    """Micro-batches of sequences of similar length, of any members, with at most `max_tokens` each;
    a longer sequence is one of its own."""
    sequences = sorted(
        _pack(samples, max_tokens, share_prompts), key=lambda sequence: -sequence.size
    )
    while sequences:
        count = max(1, max_tokens // sequences[0].size)
        yield _lay_out(sorted(sequences[:count], key=lambda sequence: sequence.slot), device)
        sequences = sequences[count:]


def _pack(
    samples: Sequence[TrainSample], max_tokens: int, share_prompts: bool
) -> list[PackedSequence]:
    sequences: list[PackedSequence] = []
    open_: dict[tuple[int, tuple[int, ...]], PackedSequence] = {}
    for sample in samples:
        key = sample.slot, sample.prompt
        sequence = open_.get(key) if share_prompts else None
        if sequence is None or sequence.size + len(sample.completion) > max_tokens:
            sequence = open_[key] = PackedSequence(sample.slot, sample.prompt, len(sample.prompt))
            sequences.append(sequence)
        sequence.add(sample)
    return sequences


def _lay_out(sequences: list[PackedSequence], device: torch.device) -> MicroBatch:
    """Sequences as rows of one batch. A segment is a prompt or a completion; everything is computed
    per segment and repeated for its tokens."""
    # Attention kernels are fastest for multiples of eight.
    length = -(-max(sequence.size for sequence in sequences) // 8) * 8
    samples = [sample for sequence in sequences for sample in sequence.samples]

    # per segment
    segments = [segment for sequence in sequences for segment in sequence.segments]
    sizes = np.array([len(segment) for segment in segments])
    number = np.array([n for sequence in sequences for n in range(len(sequence.segments))])
    row = np.cumsum(number == 0) - 1
    prompt_size = np.array([len(sequence.prompt) for sequence in sequences])[row]
    start = np.cumsum(sizes) - sizes  # among the tokens of all rows, without padding
    column = start - start[number == 0][row]

    # per token
    segment = np.repeat(np.arange(len(segments)), sizes)
    tokens = _flatten(segments, np.int64)
    offset = np.arange(len(tokens)) - start[segment]
    place = (row * length + column)[segment] + offset  # in [rows * length]
    previous = np.where(offset == 0, (row * length + prompt_size)[segment], place) - 1
    trained = number[segment] > 0

    # per place
    ids = np.zeros(len(sequences) * length, dtype=np.int64)
    ids[place] = tokens
    positions = np.tile(np.arange(length), len(sequences))
    positions[place] = offset + np.where(number == 0, 0, prompt_size)[segment]
    segment_numbers = np.full(len(sequences) * length, -1)
    segment_numbers[place] = number[segment]

    # per completion
    lengths = sizes[number > 0]
    temperatures = np.array([sample.temperature or 1.0 for sample in samples], dtype=np.float32)

    def on_device(values: Any) -> Tensor:
        return put(torch.from_numpy(values), device)

    shape = (len(sequences), length)
    shared = int(number.max()) > 1
    return MicroBatch(
        row_slots=[sequence.slot for sequence in sequences],
        ids=on_device(ids.reshape(shape)),
        positions=on_device(positions.reshape(shape)),
        mask=_mask(on_device(segment_numbers.reshape(shape))) if shared else None,
        predicted_by=on_device(previous[trained]),
        targets=on_device(_flatten(map(_targets, samples), np.int64)),
        slots=on_device(np.repeat([sample.slot for sample in samples], lengths)),
        advantages=on_device(_flatten(map(_advantages, samples), np.float32)),
        sampled_logprobs=on_device(_flatten(map(_sampled_logprobs, samples), np.float32)),
        temperatures=on_device(np.repeat(temperatures, lengths)),
        lengths=on_device(lengths),
        unpadded=len(tokens),
        sequences=sequences,
    )


def _flatten(values: Iterable[Iterable[float]], dtype: Any) -> Any:
    return np.fromiter(chain.from_iterable(values), dtype)


def _mask(segments: Tensor) -> Tensor:
    """From [rows, length]: a token sees the prompt and its own completion, up to itself."""
    length = segments.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=segments.device).tril()
    same = (segments[:, :, None] == segments[:, None, :]) | (segments[:, None, :] == 0)
    return (causal & same)[:, None]


def _advantages(sample: TrainSample) -> Sequence[float]:
    if isinstance(sample.advantage, tuple):
        assert len(sample.advantage) == len(sample.completion)
        return sample.advantage
    return [sample.advantage] * len(sample.completion)


def _targets(sample: TrainSample) -> Sequence[int]:
    return sample.targets or sample.completion


def _sampled_logprobs(sample: TrainSample) -> Sequence[float]:
    return sample.logprobs or [math.nan] * len(sample.completion)
