"""The update stage: from rewards to advantages, the rows that members learn from.

An estimator sees one member's rewards at a time. A group is what was drawn from one prompt; a group
whose rewards are all equal teaches nothing and is skipped. What a member learns depends on no other
member.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from redqueen.config.stages import UpdateConfig
from redqueen.records import Rollout

_FLOOR = 0.1
"""Least deviation to divide by: where rewards hardly differ, their differences are noise."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A text that a member wrote and what it earned."""

    member: str
    group: Hashable
    """Samples of one group came from one prompt."""
    sort: tuple[str, str]
    """Role and task kind."""
    rollout: Rollout
    reward: float


def advantages(samples: Sequence[Sample], config: UpdateConfig) -> list[float]:
    """One for each sample, in order; each member's from its own samples alone."""
    found = [0.0] * len(samples)
    by_member: dict[str, list[int]] = defaultdict(list)
    for number, sample in enumerate(samples):
        by_member[sample.member].append(number)
    for numbers in by_member.values():
        for number, value in zip(
            numbers,
            ESTIMATORS[config.estimator]([samples[number] for number in numbers]),
            strict=True,
        ):
            found[number] = value
    return found


def reinforce_pp(samples: Sequence[Sample]) -> list[float]:
    """REINFORCE++ with a baseline (Hu 2025): less the mean of the prompt, then whitened over all
    rows of groups that teach something."""
    centred = _by(samples, lambda sample: sample.group, _centred)
    rows = sum(_by(samples, lambda sample: sample.group, lambda rewards: [1.0] * len(rewards)))
    spread = math.sqrt(math.fsum(value * value for value in centred) / max(rows, 1))
    return [value / max(spread, _FLOOR) for value in centred]


def trr_pp(samples: Sequence[Sample]) -> list[float]:
    """Task-relative REINFORCE++ (Absolute Zero): whitened for each role and task kind."""
    return _by(samples, lambda sample: sample.sort, _whitened)


def grpo(samples: Sequence[Sample]) -> list[float]:
    """Group-relative (DeepSeekMath): whitened within the prompt."""
    return _by(samples, lambda sample: sample.group, _whitened)


def rloo(samples: Sequence[Sample]) -> list[float]:
    """Leave-one-out (Ahmadian et al. 2024): less the mean of the prompt's other samples."""
    return _by(samples, lambda sample: sample.group, _left_out)


ESTIMATORS: dict[str, Callable[[Sequence[Sample]], list[float]]] = {
    "reinforce_pp": reinforce_pp,
    "trr_pp": trr_pp,
    "grpo": grpo,
    "rloo": rloo,
}


def _by(
    samples: Sequence[Sample],
    key: Callable[[Sample], Hashable],
    estimate: Callable[[list[float]], list[float]],
) -> list[float]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, sample in enumerate(samples):
        groups[key(sample)].append(number)
    found = [0.0] * len(samples)
    for numbers in groups.values():
        rewards = [samples[number].reward for number in numbers]
        if max(rewards) - min(rewards) > 1e-9:
            for number, value in zip(numbers, estimate(rewards), strict=True):
                found[number] = value
    return found


def _centred(rewards: list[float]) -> list[float]:
    mean = math.fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def _whitened(rewards: list[float]) -> list[float]:
    centred = _centred(rewards)
    spread = math.sqrt(math.fsum(value * value for value in centred) / len(centred))
    return [value / max(spread, _FLOOR) for value in centred]


def _left_out(rewards: list[float]) -> list[float]:
    total = math.fsum(rewards)
    return [reward - (total - reward) / (len(rewards) - 1) for reward in rewards]
