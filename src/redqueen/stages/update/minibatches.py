"""Deals a step's samples out to several optimizer steps, and sums up what training on them did."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from redqueen.engine.merge_stats import mean_gaps, mean_ratio
from redqueen.engine.protocol import SlotStats, TrainSample, TrainStats


def split_minibatches(samples: Sequence[TrainSample], parts: int) -> Iterator[list[TrainSample]]:
    """Each slot's samples, dealt round-robin to `parts` minibatches. Empty ones are left out, and
    so are samples without advantage."""
    samples = [sample for sample in samples if sample.has_gradient]
    for part in range(parts):
        dealt: dict[int, int] = defaultdict(int)
        minibatch = []
        for sample in samples:
            if dealt[sample.slot] % parts == part:
                minibatch.append(sample)
            dealt[sample.slot] += 1
        if minibatch:
            yield minibatch


def merge_stats(parts: Sequence[TrainStats]) -> TrainStats:
    """Of all minibatches: losses are added, the rest are means over tokens."""
    if len(parts) == 1:
        return parts[0]
    by_slot: dict[int, list[SlotStats]] = defaultdict(list)
    for part in parts:
        for slot, stats in part.slots.items():
            by_slot[slot].append(stats)
    padded = sum(part.tokens for part in parts)
    unpadded = [part.tokens * (1 - part.padding_frac) for part in parts]
    unshared = [
        tokens / (1 - part.shared_frac) for tokens, part in zip(unpadded, parts, strict=True)
    ]
    return TrainStats(
        {slot: _merge_slot(stats) for slot, stats in sorted(by_slot.items())},
        tokens=padded,
        padding_frac=1 - sum(unpadded) / padded if padded else 0.0,
        shared_frac=1 - sum(unpadded) / sum(unshared) if padded else 0.0,
        seconds=sum(part.seconds for part in parts),
        peak_gb=max((part.peak_gb for part in parts), default=math.nan),
        cores=min((part.cores for part in parts), default=math.nan),
        ratio=mean_ratio(parts),
        gap_by_position=mean_gaps(parts),
        micro_batches=sum(part.micro_batches for part in parts),
        out_of_memory=sum(part.out_of_memory for part in parts),
    )


def _merge_slot(parts: Sequence[SlotStats]) -> SlotStats:
    tokens = sum(part.tokens for part in parts)

    def mean(name: str) -> float:
        return float(sum(getattr(part, name) * part.tokens for part in parts)) / tokens

    return replace(
        parts[0],
        samples=sum(part.samples for part in parts),
        tokens=tokens,
        loss=sum(part.loss for part in parts),
        entropy=mean("entropy"),
        logprob_gap=mean("logprob_gap"),
        logprob_gap_max=max(part.logprob_gap_max for part in parts),
        kl=mean("kl"),
        clipped_frac=mean("clipped_frac"),
    )
