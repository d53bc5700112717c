"""Training many members at once: one pass over the rows of all of them, one optimizer step for
each.

Completions of one prompt stand in one sequence behind it: each sees the prompt and itself, and the
prompt is computed once. A member's loss is normalised by its own tokens and its gradient clipped by
its own norm, so that what it learns does not depend on the others.
"""

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from redqueen.engine.protocol import MemberStats, TrainSample, TrainSettings, TrainStats
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.optimizer import PopulationAdamW
from redqueen.engine.torch.population import Routing, put

_HEAD_TOKENS = 2048
"""Tokens whose logits exist at one time."""


@dataclass(slots=True)
class Sheaf:
    """A prompt and completions of it."""

    slot: int
    prompt: tuple[int, ...]
    size: int
    """Tokens of all of it."""
    rows: list[TrainSample] = field(default_factory=list)

    def add(self, row: TrainSample) -> None:
        self.rows.append(row)
        self.size += len(row.completion)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences side by side, by slot, on the device."""

    slots: list[int]
    """Of each row."""
    ids: Tensor
    positions: Tensor
    mask: Tensor | None
    """[rows, 1, tokens, tokens]; None where every sequence has one completion: the plain causal
    mask."""
    where: Tensor
    """Flat places of the tokens that come before those to be learned."""
    targets: Tensor
    members: Tensor
    """The slot of each target."""
    advantages: Tensor
    sampled: Tensor
    """Log-probabilities as sampled; nan where they are not known."""
    temperatures: Tensor
    real: int
    """Tokens that are no padding."""


def train(
    forward: Forward,
    optimizer: PopulationAdamW,
    rows: Sequence[TrainSample],
    settings: TrainSettings,
    tokens_in_flight: int,
    share: bool,
) -> TrainStats:
    started = time.monotonic()
    device = forward.base.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    useful = [row for row in rows if row.completion and any(_advantages(row))]
    sums = _Sums(optimizer.population.slots, device)
    computed = padded = 0
    for part in _dealt(useful, settings.optimizer_steps):
        written = [0.0] * optimizer.population.slots
        for row in part:
            written[row.slot] += len(row.completion)
        tokens = torch.tensor(written, device=device)
        optimizer.zero_grad()
        for batch in _batches(part, tokens_in_flight, share, device):
            routing = forward.routing(batch.slots, batch.ids.shape[1])
            with optimizer.population.routed(
                routing
            ):  # in the backward pass too: checkpoints compute forwards there
                _loss(forward, batch, routing, tokens, settings, sums).backward()
            computed += batch.real
            padded += batch.ids.numel()
        learning = (
            tokens > 0
        ) & sums.norms.isfinite()  # whose gradient was no number once learns no more in this call
        sums.norms = torch.maximum(sums.norms, optimizer.step(learning, settings))
    separately = sum(len(row.prompt) + len(row.completion) for row in useful)
    members = sums.members(useful)
    broken = frozenset(
        slot for slot, member in members.items() if not math.isfinite(member.grad_norm)
    )
    return TrainStats(
        members={slot: member for slot, member in members.items() if slot not in broken},
        broken=broken,
        skipped_rows=len(rows) - len(useful),
        tokens=padded,
        padding_frac=1 - computed / padded if padded else 0.0,
        shared_frac=1 - computed / separately if separately else 0.0,
        seconds=time.monotonic() - started,
        peak_gb=torch.cuda.max_memory_allocated(device) / 1e9
        if device.type == "cuda"
        else math.nan,
    )


class _Sums:
    """What is summed up for each slot on the device while batches go by."""

    names = ("loss", "entropy", "gap", "known", "kl", "clipped")

    def __init__(self, slots: int, device: torch.device) -> None:
        self.values = {name: torch.zeros(slots, device=device) for name in self.names}
        self.gap_max = torch.zeros(slots, device=device)
        self.norms = torch.zeros(slots, device=device)

    def add(self, name: str, members: Tensor, values: Tensor) -> None:
        self.values[name].index_add_(0, members, values.detach().float())

    def members(self, rows: Sequence[TrainSample]) -> dict[int, MemberStats]:
        values = {name: sums.tolist() for name, sums in self.values.items()}
        gap_max, norms = self.gap_max.tolist(), self.norms.tolist()
        counts: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for row in rows:
            counts[row.slot] = counts[row.slot][0] + 1, counts[row.slot][1] + len(row.completion)
        return {
            slot: MemberStats(
                rows=number,
                tokens=tokens,
                loss=values["loss"][slot],
                grad_norm=norms[slot],
                entropy=values["entropy"][slot] / tokens,
                logprob_gap=values["gap"][slot] / values["known"][slot]
                if values["known"][slot]
                else math.nan,
                logprob_gap_max=gap_max[slot],
                kl=values["kl"][slot] / tokens,
                clipped_frac=values["clipped"][slot] / tokens,
            )
            for slot, (number, tokens) in sorted(counts.items())
        }


def _loss(
    forward: Forward,
    batch: Batch,
    routing: Routing | None,
    tokens: Tensor,
    settings: TrainSettings,
    sums: _Sums,
) -> Tensor:
    """The sum of the members' losses: each is a mean over its own tokens."""
    hidden = forward.sequences(batch.ids, batch.positions, batch.mask, routing).flatten(0, 1)[
        batch.where
    ]
    logprobs, entropy = _logprobs(forward, hidden, batch.targets, batch.temperatures)
    share = 1 / tokens[batch.members]
    if settings.clip_low is None and settings.clip_high is None:
        losses = -batch.advantages * logprobs
    else:
        apart = logprobs - torch.where(batch.sampled.isnan(), logprobs.detach(), batch.sampled)
        ratio = torch.exp(apart.clamp(-20, 20))  # beyond, it would only overflow
        bounded = ratio.clamp(
            1 - (settings.clip_low or math.inf), 1 + (settings.clip_high or math.inf)
        )
        losses = -torch.minimum(ratio * batch.advantages, bounded * batch.advantages)
        sums.add(
            "clipped",
            batch.members,
            (ratio * batch.advantages > bounded * batch.advantages).float(),
        )
    if settings.kl:
        divergence = _divergence(forward, batch, logprobs)
        losses = losses + settings.kl * divergence
        sums.add("kl", batch.members, divergence)
    gap = (logprobs.detach() - batch.sampled).abs()
    known = ~gap.isnan()
    sums.add("gap", batch.members, torch.where(known, gap, 0.0))
    sums.add("known", batch.members, known)
    sums.gap_max.scatter_reduce_(0, batch.members, torch.where(known, gap, 0.0), "amax")
    sums.add("entropy", batch.members, entropy)
    sums.add("loss", batch.members, losses * share)
    return (losses * share).sum()


def _logprobs(
    forward: Forward, hidden: Tensor, targets: Tensor, temperatures: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the targets and the entropy there, a few logits at a time, computed
    again in the backward pass."""

    def some(hidden: Tensor, targets: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(forward.logits(hidden).float() / temperatures[:, None], -1)
        entropy = -(logprobs.detach().exp() * logprobs.detach()).sum(-1)
        return logprobs.gather(-1, targets[:, None])[:, 0], entropy

    parts = []
    for piece in zip(
        *(values.split(_HEAD_TOKENS) for values in (hidden, targets, temperatures)), strict=True
    ):
        parts.append(
            checkpoint(some, *piece, use_reentrant=False)
            if torch.is_grad_enabled()
            else some(*piece)
        )
    return torch.cat([logprobs for logprobs, _ in parts]), torch.cat(
        [entropy for _, entropy in parts]
    )


def _divergence(forward: Forward, batch: Batch, logprobs: Tensor) -> Tensor:
    """An estimate of the divergence from the base for each token, never negative (Schulman's k3)."""
    with torch.no_grad():
        hidden = forward.sequences(batch.ids, batch.positions, batch.mask, None).flatten(0, 1)[
            batch.where
        ]
        base, _ = _logprobs(forward, hidden, batch.targets, batch.temperatures)
    return torch.exp(base - logprobs) - 1 - (base - logprobs)


# batches


def _dealt(rows: Sequence[TrainSample], parts: int) -> Iterator[list[TrainSample]]:
    """The rows of each slot, dealt out in turn."""
    for part in range(parts):
        by_slot: dict[int, int] = defaultdict(int)
        found = []
        for row in rows:
            if by_slot[row.slot] % parts == part:
                found.append(row)
            by_slot[row.slot] += 1
        if found:
            yield found


def _batches(
    rows: Sequence[TrainSample], tokens_in_flight: int, share: bool, device: torch.device
) -> Iterator[Batch]:
    """Sequences of about one length together, whoever's they are, and at most so many tokens at a
    time, or one sequence that is longer."""
    sequences = sorted(
        _sequences(rows, tokens_in_flight, share), key=lambda sequence: -sequence.size
    )
    while sequences:
        room = max(1, tokens_in_flight // sequences[0].size)
        yield _batch(sorted(sequences[:room], key=lambda sequence: sequence.slot), device)
        sequences = sequences[room:]


def _sequences(rows: Sequence[TrainSample], most: int, share: bool) -> list[Sheaf]:
    found: list[Sheaf] = []
    open_: dict[tuple[int, tuple[int, ...]], Sheaf] = {}
    for row in rows:
        key = row.slot, row.prompt
        sequence = open_.get(key) if share else None
        if sequence is None or sequence.size + len(row.completion) > max(most, 1):
            sequence = open_[key] = Sheaf(row.slot, row.prompt, len(row.prompt))
            found.append(sequence)
        sequence.add(row)
    return found


def _batch(sequences: list[Sheaf], device: torch.device) -> Batch:
    """A token's place follows from the piece it is of: a prompt, or a completion. No token is
    touched one by one."""
    length = (
        -(-max(sequence.size for sequence in sequences) // 8) * 8
    )  # attention kernels want multiples of eight
    rows = [row for sequence in sequences for row in sequence.rows]
    pieces = [
        piece
        for sequence in sequences
        for piece in (sequence.prompt, *(row.completion for row in sequence.rows))
    ]
    sizes = np.array([len(piece) for piece in pieces])
    turns = np.array([turn for sequence in sequences for turn in range(len(sequence.rows) + 1)])
    numbers = np.cumsum(turns == 0) - 1
    prompts = np.array([len(sequence.prompt) for sequence in sequences])[numbers]
    ends = np.cumsum(sizes)
    inside = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    firsts = numbers * length + (ends - sizes) - (ends - sizes)[turns == 0][numbers]
    places = np.repeat(firsts, sizes) + inside
    tokens = _flat(pieces, np.int64)
    ids = np.zeros(len(sequences) * length, dtype=np.int64)
    ids[places] = tokens
    positions = np.tile(np.arange(length), len(sequences))
    positions[places] = inside + np.repeat(np.where(turns == 0, 0, prompts), sizes)
    segments = np.full(len(sequences) * length, -1)
    """0 for the prompt, then the number of the completion; -1 for padding."""
    segments[places] = np.repeat(turns, sizes)
    learned = np.repeat(turns, sizes) > 0
    # the prompt's last token foretells the first one of every completion
    before = np.where(inside == 0, np.repeat(numbers * length + prompts, sizes), places) - 1
    written = sizes[turns > 0]

    def on_device(values: Any) -> Tensor:
        return put(torch.from_numpy(values), device)

    segment = on_device(segments.reshape(len(sequences), length))
    return Batch(
        slots=[sequence.slot for sequence in sequences],
        ids=on_device(ids.reshape(len(sequences), length)),
        positions=on_device(positions.reshape(len(sequences), length)),
        mask=_mask(segment) if turns.max() > 1 else None,
        where=on_device(before[learned]),
        targets=on_device(tokens[learned]),
        members=on_device(np.repeat([row.slot for row in rows], written)),
        advantages=on_device(_flat((_advantages(row) for row in rows), np.float32)),
        sampled=on_device(
            _flat((row.logprobs or [math.nan] * len(row.completion) for row in rows), np.float32)
        ),
        temperatures=on_device(
            np.repeat(np.array([row.temperature or 1.0 for row in rows], dtype=np.float32), written)
        ),
        real=int(ends[-1]),
    )


def _flat(values: Iterable[Iterable[float]], kind: Any) -> Any:
    return np.fromiter(chain.from_iterable(values), kind)


def _mask(segment: Tensor) -> Tensor:
    """A token sees the prompt and its own completion, up to itself."""
    length = segment.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=segment.device).tril()
    same = (segment[:, :, None] == segment[:, None, :]) | (segment[:, None, :] == 0)
    return (causal & same)[:, None]


def _advantages(row: TrainSample) -> Sequence[float]:
    if isinstance(row.advantage, tuple):
        assert len(row.advantage) == len(row.completion)
        return row.advantage
    return [row.advantage] * len(row.completion)
