"""Gradients for many members at once: one forward and backward over the samples of all of them.

A member's loss is averaged over its own samples, so its gradient does not depend on the other
members.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from redqueen.engine.protocol import Loss, SlotStats, TrainSample, TrainStats
from redqueen.engine.torch.cores import CORES
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.packing import MicroBatch, split_microbatches
from redqueen.engine.torch.population import Population
from redqueen.engine.torch.routing import Routing

_LOGITS_TOKENS = 2048
"""Tokens whose logits exist at the same time: [tokens, vocabulary] is the largest tensor of all."""
_MAX_RATIO = 2.0
_POSITIONS = (0, 64, 256, 1024)


OnBatch = Callable[[MicroBatch, Tensor, Tensor], None]
"""Sees every micro-batch with its hidden states, [rows * length, hidden size], and the
log-probabilities of its targets."""


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
    on_batch: OnBatch | None = None,
) -> TrainStats:
    """Add the gradients of the samples to those of the population. `on_batch` sees every
    micro-batch; samples without a gradient are for it alone."""
    started = time.monotonic()
    device = forward.base.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    totals = _Totals(samples, population.slots, device)
    unpadded = padded = count = 0
    for batch in split_microbatches(samples, max_tokens, share_prompts, device):
        routing = forward.routing(batch.row_slots, batch.ids.shape[1])
        # The backward pass needs the routing too: gradient checkpointing runs forward passes in it.
        with population.routed(routing):
            _compute_loss(forward, batch, routing, loss, kl, totals, on_batch).backward()
        CORES.adapt()
        unpadded += batch.unpadded
        padded += batch.ids.numel()
        count += 1
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
        cores=CORES.count if device.type == "cpu" else math.nan,
        ratio=totals.mean_ratio(),
        gap_by_position=totals.gap_by_position(),
        micro_batches=count,
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
        self.ratio = torch.zeros((), device=device)
        self.positions = torch.tensor(_POSITIONS[1:], device=device)
        self.by_position = torch.zeros(2, len(_POSITIONS), device=device)  # gaps, tokens

    def add(self, name: str, batch: MicroBatch, values: Tensor) -> None:
        """Values are [targets]."""
        self.sums[name].index_add_(0, batch.slots, values.detach().float())

    def add_gap(self, batch: MicroBatch, logprobs: Tensor) -> None:
        difference = logprobs.detach() - batch.sampled_logprobs
        known = ~difference.isnan()
        gap = torch.where(known, difference.abs(), 0.0)
        self.ratio += torch.where(known, difference.exp().clamp(max=_MAX_RATIO), 0.0).sum()
        ends = batch.lengths.cumsum(0)
        offsets = torch.arange(len(gap), device=gap.device) - (
            ends - batch.lengths
        ).repeat_interleave(batch.lengths)
        bucket = torch.bucketize(offsets, self.positions, right=True)
        for row, values in enumerate((gap, known.float())):
            self.by_position[row].index_add_(0, bucket, values)
        self.add("gap", batch, gap)
        self.add("known", batch, known)
        self.sums["gap_max"].scatter_reduce_(0, batch.slots, gap, "amax")

    def mean_ratio(self) -> float:
        known = float(self.sums["known"].sum())
        return float(self.ratio) / known if known else math.nan

    def gap_by_position(self) -> dict[int, float]:
        gaps, tokens = self.by_position.tolist()
        return {
            position: gap / count
            for position, gap, count in zip(_POSITIONS, gaps, tokens, strict=True)
            if count
        }

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
    on_batch: OnBatch | None = None,
) -> Tensor:
    """The sum over members of what this batch adds to their losses."""
    hidden = hidden_states(forward, batch, routing)
    logprobs, entropy = _target_logprobs(forward, batch, hidden)
    if on_batch is not None:
        on_batch(batch, hidden.detach(), logprobs.detach())
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
    if loss.average == "sum":
        return torch.ones_like(batch.advantages)
    if loss.average == "sequences":
        length = batch.lengths.repeat_interleave(batch.lengths)
        return 1 / (totals.samples[batch.slots] * length)
    return 1 / (totals.samples[batch.slots] * loss.average)


def hidden_states(forward: Forward, batch: MicroBatch, routing: Routing | None) -> Tensor:
    """[rows * length, hidden size]"""
    return forward.sequences(batch.ids, batch.positions, batch.mask, routing).flatten(0, 1)


def _target_logprobs(forward: Forward, batch: MicroBatch, hidden: Tensor) -> tuple[Tensor, Tensor]:
    return logprobs_of(forward, hidden[batch.predicted_by], batch.targets, batch.temperatures)


def logprobs_of(
    forward: Forward, hidden: Tensor, targets: Tensor, temperatures: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the targets and the entropies there, both [targets]; `hidden` is
    [targets, hidden size]. Logits are made for some tokens at a time, and again in the backward
    pass."""

    def head(hidden: Tensor, targets: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(forward.logits(hidden).float() / temperatures[:, None], -1)
        entropy = -(logprobs.detach().exp() * logprobs.detach()).sum(-1)
        return logprobs.gather(-1, targets[:, None])[:, 0], entropy

    parts = []
    inputs = (hidden, targets, temperatures)
    for piece in zip(*(values.split(_LOGITS_TOKENS) for values in inputs), strict=True):
        with_grad = torch.is_grad_enabled()
        parts.append(checkpoint(head, *piece, use_reentrant=False) if with_grad else head(*piece))
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _divergence(forward: Forward, batch: MicroBatch, logprobs: Tensor) -> Tensor:
    """KL divergence from the base for each target: Schulman's k3 estimate, never negative."""
    with torch.no_grad():
        base, _ = _target_logprobs(forward, batch, hidden_states(forward, batch, None))
    return torch.exp(base - logprobs) - 1 - (base - logprobs)
