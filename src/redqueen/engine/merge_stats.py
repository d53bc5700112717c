"""Means over training calls: of blocks side by side, or of minibatches one after another."""

import math
from collections.abc import Sequence

from redqueen.engine.protocol import TrainStats


def mean_ratio(parts: Sequence[TrainStats]) -> float:
    return _mean([(part.ratio, part) for part in parts])


def mean_gaps(parts: Sequence[TrainStats]) -> dict[int, float]:
    """By position."""
    return {
        position: _mean(
            [
                (part.gap_by_position[position], part)
                for part in parts
                if position in part.gap_by_position
            ]
        )
        for position in sorted({place for part in parts for place in part.gap_by_position})
    }


def _mean(values: Sequence[tuple[float, TrainStats]]) -> float:
    """Over trained tokens, of the parts that have a value."""
    weighted = [
        (value, sum(slot.tokens for slot in part.slots.values()))
        for value, part in values
        if not math.isnan(value)
    ]
    total = sum(tokens for _, tokens in weighted)
    return sum(value * tokens for value, tokens in weighted) / total if total else math.nan
