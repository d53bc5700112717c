"""Advantages: from rewards to how much better than expected each sample was.

An estimator sees one member's samples at a time. A group is what was sampled from one prompt; a
group whose rewards are all equal teaches nothing and is skipped. What a member learns depends on no
other member.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.config.registry import Choice, Registry
from redqueen.records import Rollout

_FLOOR = 0.1
"""Least deviation to divide by: where rewards hardly differ, their differences are noise."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A rollout of a member and its reward."""

    member: str
    group: Hashable
    """Samples of one group came from one prompt."""
    role: str
    kind: str
    rollout: Rollout
    reward: float


Estimator = Callable[[Sequence[Sample], Any], list[float]]
"""From one member's samples and the settings: an advantage for each."""


def estimate_advantages(samples: Sequence[Sample], choice: Choice) -> list[float]:
    """One for each sample, in order; each member's from its own samples alone."""
    estimator = ESTIMATORS[choice.type]
    advantages = [0.0] * len(samples)
    by_member: dict[str, list[int]] = defaultdict(list)
    for number, sample in enumerate(samples):
        by_member[sample.member].append(number)
    for numbers in by_member.values():
        own = estimator([samples[number] for number in numbers], choice.options)
        for number, advantage in zip(numbers, own, strict=True):
            advantages[number] = advantage
    return advantages


def reinforce_pp(samples: Sequence[Sample], settings: Choice) -> list[float]:
    """REINFORCE++ with a baseline (Hu 2025): less the mean of the prompt, then whitened over all
    rows of groups that teach something."""
    centred = _by_group(samples, lambda sample: sample.group, _center)
    count = sum(
        _by_group(samples, lambda sample: sample.group, lambda rewards: [1.0] * len(rewards))
    )
    spread = math.sqrt(math.fsum(value * value for value in centred) / max(count, 1))
    return [value / max(spread, _FLOOR) for value in centred]


def trr_pp(samples: Sequence[Sample], settings: Choice) -> list[float]:
    """Task-relative REINFORCE++ (Absolute Zero, arXiv 2505.03335): whitened for each role and task
    kind, over tokens: a long sample counts for more of the mean than a short one."""
    values = [0.0] * len(samples)
    for rows in _group_rows(samples, lambda sample: (sample.role, sample.kind)):
        lengths = [len(samples[row].rollout.tokens) for row in rows]
        for row, value in zip(
            rows, _whiten([samples[row].reward for row in rows], lengths), strict=True
        ):
            values[row] = value
    return values


def grpo(samples: Sequence[Sample], settings: Choice) -> list[float]:
    """Group-relative (DeepSeekMath): whitened within the prompt."""
    return _by_group(samples, lambda sample: sample.group, _whiten)


def rloo(samples: Sequence[Sample], settings: Choice) -> list[float]:
    """Leave-one-out (Ahmadian et al. 2024): less the mean of the prompt's other samples."""
    return _by_group(samples, lambda sample: sample.group, _leave_one_out)


ESTIMATORS: Registry[Estimator] = Registry(
    "estimator", {"reinforce_pp": reinforce_pp, "trr_pp": trr_pp, "grpo": grpo, "rloo": rloo}
)


def _by_group(
    samples: Sequence[Sample],
    key: Callable[[Sample], Hashable],
    estimate: Callable[[list[float]], list[float]],
) -> list[float]:
    values = [0.0] * len(samples)
    for rows in _group_rows(samples, key):
        for row, value in zip(rows, estimate([samples[row].reward for row in rows]), strict=True):
            values[row] = value
    return values


def _group_rows(
    samples: Sequence[Sample], key: Callable[[Sample], Hashable]
) -> Iterator[list[int]]:
    """The numbers of the samples of each group in which rewards differ."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for row, sample in enumerate(samples):
        groups[key(sample)].append(row)
    for rows in groups.values():
        rewards = [samples[row].reward for row in rows]
        if max(rewards) - min(rewards) > 1e-9:
            yield rows


def _center(rewards: list[float]) -> list[float]:
    mean = math.fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def _whiten(rewards: list[float], weights: Sequence[int] = ()) -> list[float]:
    weights = weights or [1] * len(rewards)
    total = sum(weights)
    if not total:  # nothing was sampled but empty texts
        return [0.0] * len(rewards)
    mean = math.fsum(map(math.prod, zip(rewards, weights, strict=True))) / total
    squares = [(reward - mean) ** 2 for reward in rewards]
    spread = math.sqrt(math.fsum(map(math.prod, zip(squares, weights, strict=True))) / total)
    return [(reward - mean) / max(spread, _FLOOR) for reward in rewards]


def _leave_one_out(rewards: list[float]) -> list[float]:
    total = math.fsum(rewards)
    return [reward - (total - reward) / (len(rewards) - 1) for reward in rewards]
