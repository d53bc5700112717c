"""Gradients for many members at once: one forward and backward over the samples of all of them.

Completions of one prompt are packed into one sequence behind it. Each sees the prompt and itself,
and the prompt is computed once. A member's loss is averaged over its own samples, so its gradient
does not depend on the other members.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from redqueen.engine.protocol import Loss, SlotStats, TrainSample, TrainStats
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.population import Population
from redqueen.engine.torch.routing import Routing, put

_LOGITS_TOKENS = 2048
"""Tokens whose logits exist at the same time: [tokens, vocabulary] is the largest tensor of all."""


@dataclass(slots=True)
class PackedSequence:
    """A prompt followed by completions of it."""

    slot: int
    prompt: tuple[int, ...]
    size: int
    """In tokens."""
    samples: list[TrainSample] = field(default_factory=list)

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


@dataclass(frozen=True, slots=True)
class LossTokens:
    """What a loss sees of a micro-batch; every tensor is [targets]."""

    logprobs: Tensor
    sampled_logprobs: Tensor
    advantages: Tensor
    lengths: Tensor
    """[completions]"""

    def sequence_mean(self, values: Tensor) -> Tensor:
        # By a padded table and not by index_add, which sums in any order on a GPU.
        longest = int(self.lengths.max())
        inside = torch.arange(longest, device=values.device) < self.lengths[:, None]
        table = values.new_zeros(inside.shape).masked_scatter(inside, values)
        return (table.sum(1) / self.lengths)[:, None].expand_as(table)[inside]


def accumulate(
    forward: Forward,
    population: Population,
    samples: Sequence[TrainSample],
    loss: Loss,
    kl: float,
    max_tokens: int,
    share_prompts: bool,
) -> TrainStats:
    """Add the gradients of the samples to those of the population."""
    started = time.monotonic()
    device = forward.base.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    samples = [sample for sample in samples if sample.has_gradient]
    totals = _Totals(samples, population.slots, device)
    unpadded = padded = 0
    for batch in split(samples, max_tokens, share_prompts, device):
        routing = forward.routing(batch.row_slots, batch.ids.shape[1])
        # The backward pass needs the routing too: gradient checkpointing runs forward passes in it.
        with population.routed(routing):
            _compute_loss(forward, batch, routing, loss, kl, totals).backward()
        unpadded += batch.unpadded
        padded += batch.ids.numel()
    unshared = sum(len(sample.prompt) + len(sample.completion) for sample in samples)
    return TrainStats(
        slots=totals.to_stats(),
        tokens=padded,
        padding_frac=1 - unpadded / padded if padded else 0.0,
        shared_frac=1 - unpadded / unshared if unshared else 0.0,
        seconds=time.monotonic() - started,
        peak_gb=torch.cuda.max_memory_allocated(device) / 1e9
        if device.type == "cuda"
        else math.nan,
    )


class _Totals:
    """Sums for each slot, on the device, over the micro-batches of a call."""

    def __init__(self, samples: Sequence[TrainSample], slots: int, device: torch.device) -> None:
        counts, tokens = [0.0] * slots, [0.0] * slots
        for sample in samples:
            counts[sample.slot] += 1
            tokens[sample.slot] += len(sample.completion)
        self.samples = torch.tensor(counts, device=device)  # [slots]
        self.tokens = torch.tensor(tokens, device=device)
        names = ("loss", "entropy", "gap", "gap_max", "known", "kl", "clipped")
        self.sums = {name: torch.zeros(slots, device=device) for name in names}

    def add(self, name: str, batch: MicroBatch, values: Tensor) -> None:
        """Values are [targets]."""
        self.sums[name].index_add_(0, batch.slots, values.detach().float())

    def add_gap(self, batch: MicroBatch, logprobs: Tensor) -> None:
        gap = (logprobs.detach() - batch.sampled_logprobs).abs()
        known = ~gap.isnan()
        gap = torch.where(known, gap, 0.0)
        self.add("gap", batch, gap)
        self.add("known", batch, known)
        self.sums["gap_max"].scatter_reduce_(0, batch.slots, gap, "amax")

    def to_stats(self) -> dict[int, SlotStats]:
        samples, tokens = self.samples.tolist(), self.tokens.tolist()
        sums = {name: values.tolist() for name, values in self.sums.items()}
        return {
            slot: SlotStats(
                samples=int(count),
                tokens=int(tokens[slot]),
                loss=sums["loss"][slot],
                entropy=sums["entropy"][slot] / tokens[slot],
                logprob_gap=sums["gap"][slot] / sums["known"][slot]
                if sums["known"][slot]
                else math.nan,
                logprob_gap_max=sums["gap_max"][slot],
                kl=sums["kl"][slot] / tokens[slot],
                clipped_frac=sums["clipped"][slot] / tokens[slot],
            )
            for slot, count in enumerate(samples)
            if count
        }


def _compute_loss(
    forward: Forward,
    batch: MicroBatch,
    routing: Routing | None,
    loss: Loss,
    kl: float,
    totals: _Totals,
) -> Tensor:
    """The sum over members of what this batch adds to their losses."""
    logprobs, entropy = _logprobs(forward, batch, routing)
    known = ~batch.sampled_logprobs.isnan()
    sampled = torch.where(known, batch.sampled_logprobs, logprobs.detach())
    losses = loss.per_token(LossTokens(logprobs, sampled, batch.advantages, batch.lengths))
    # Losses are functions of `logprobs` alone, so this does not reach into the model.
    (slopes,) = torch.autograd.grad(losses.sum(), logprobs, retain_graph=True)
    totals.add("clipped", batch, (slopes == 0) & (batch.advantages != 0))
    if kl:
        divergence = _divergence(forward, batch, logprobs)
        losses = losses + kl * divergence
        totals.add("kl", batch, divergence)
    losses = losses * _weights(batch, loss, totals)
    totals.add_gap(batch, logprobs)
    totals.add("entropy", batch, entropy)
    totals.add("loss", batch, losses)
    return losses.sum()


def _weights(batch: MicroBatch, loss: Loss, totals: _Totals) -> Tensor:
    """[targets]: what each per-token loss counts, so that the sum is the average asked for."""
    if loss.average == "tokens":
        return 1 / totals.tokens[batch.slots]
    if loss.average == "sequences":
        length = batch.lengths.repeat_interleave(batch.lengths)
        return 1 / (totals.samples[batch.slots] * length)
    return 1 / (totals.samples[batch.slots] * loss.average)


def _logprobs(
    forward: Forward, batch: MicroBatch, routing: Routing | None
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the targets and the entropies there, both [targets]. Logits are made for
    some tokens at a time, and again in the backward pass."""
    hidden = forward.sequences(batch.ids, batch.positions, batch.mask, routing)
    hidden = hidden.flatten(0, 1)[batch.predicted_by]  # [targets, hidden size]

    def head(hidden: Tensor, targets: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(forward.logits(hidden).float() / temperatures[:, None], -1)
        entropy = -(logprobs.detach().exp() * logprobs.detach()).sum(-1)
        return logprobs.gather(-1, targets[:, None])[:, 0], entropy

    parts = []
    inputs = (hidden, batch.targets, batch.temperatures)
    for piece in zip(*(values.split(_LOGITS_TOKENS) for values in inputs), strict=True):
        with_grad = torch.is_grad_enabled()
        parts.append(checkpoint(head, *piece, use_reentrant=False) if with_grad else head(*piece))
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _divergence(forward: Forward, batch: MicroBatch, logprobs: Tensor) -> Tensor:
    """KL divergence from the base for each target: Schulman's k3 estimate, never negative."""
    with torch.no_grad():
        base, _ = _logprobs(forward, batch, None)
    return torch.exp(base - logprobs) - 1 - (base - logprobs)


# packing


def split(
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
    per segment and repeated for its tokens. Two rows, with completions a and b of p, and c of q:

        ids           p p p a a b b b    q q c . . . . .    . is padding
        segment       0 0 0 1 1 2 2 2    0 0 1 - - - - -    a token sees 0 and its own
        positions     0 1 2 3 4 3 4 5    0 1 2 3 4 5 6 7    every completion follows the prompt
        column        0 1 2 3 4 5 6 7    0 1 2 3 4 5 6 7
        predicted by        2 3 2 5 6        1              the prompt's last token predicts the
                                                            first one of every completion
    """
    # Attention kernels are fastest for multiples of eight.
    length = -(-max(sequence.size for sequence in sequences) // 8) * 8
    samples = [sample for sequence in sequences for sample in sequence.samples]

    # per segment
    segments = [
        segment
        for sequence in sequences
        for segment in (sequence.prompt, *(sample.completion for sample in sequence.samples))
    ]
    sizes = np.array([len(segment) for segment in segments])
    number = np.array([n for sequence in sequences for n in range(len(sequence.samples) + 1)])
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

    lengths = sizes[number > 0]  # per completion
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
        targets=on_device(tokens[trained]),
        slots=on_device(np.repeat([sample.slot for sample in samples], lengths)),
        advantages=on_device(_flatten(map(_advantages, samples), np.float32)),
        sampled_logprobs=on_device(_flatten(map(_sampled_logprobs, samples), np.float32)),
        temperatures=on_device(np.repeat(temperatures, lengths)),
        lengths=on_device(lengths),
        unpadded=len(tokens),
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


def _sampled_logprobs(sample: TrainSample) -> Sequence[float]:
    return sample.logprobs or [math.nan] * len(sample.completion)
