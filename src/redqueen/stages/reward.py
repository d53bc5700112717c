"""The reward stage: what a proposal earns its teacher, and an attempt its student.

A teacher earns 1 - s for a problem that the matched student solves in a share s of its attempts,
and nothing where s is 0: the best problem is the hardest one that can be solved. Covered: invalid
proposals, repetitions, problems that nobody or everybody solves. Not covered: whether a hard
problem is hard for a good reason.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from redqueen.config.section import Section
from redqueen.records import Attempt, Problem, Rejection

_SHARPNESS: dict[str, tuple[float, float]] = {"paper": (0.0, 0.0), "azr": (-0.5, -0.5)}
"""What problems that nobody or everybody solves earn, by variant."""


class RewardConfig(Section):
    variant: Literal["paper", "azr"] = "paper"
    """What an unsolved and a trivial problem earn: 0 and 0 (paper), or -0.5 and -0.5 (Absolute
    Zero)."""
    invalid: float = -1.0
    """A proposal that is no problem."""
    duplicate: float = -0.5
    """A problem that was posed before."""
    unsolved: float | None = None
    """A problem that no attempt solves; by default what the variant says."""
    trivial: float | None = None
    """A problem that every attempt solves; by default what the variant says."""
    right: float = 1.0
    """A right answer."""
    wrong: float = -0.5
    """An answer in the right form that is wrong."""
    malformed: float = -1.0
    """An answer that cannot be read."""
    novelty: float = Field(default=0.0, ge=0)
    """Added to what a problem between trivial and unsolved earns, where its program behaves like
    none before it in this world."""


def teacher_reward(
    verdict: Problem | Rejection, solve_rate: float | None, novel: bool, config: RewardConfig
) -> float:
    if isinstance(verdict, Rejection):
        return config.duplicate if verdict.reason == "duplicate" else config.invalid
    assert solve_rate is not None
    unsolved, trivial = _SHARPNESS[config.variant]
    if solve_rate == 0:
        return unsolved if config.unsolved is None else config.unsolved
    if solve_rate == 1:
        return trivial if config.trivial is None else config.trivial
    return 1 - solve_rate + (config.novelty if novel else 0.0)


def student_reward(attempt: Attempt, config: RewardConfig) -> float:
    return {"right": config.right, "wrong": config.wrong, "malformed": config.malformed}[
        attempt.verdict
    ]


def solve_rate(attempts: Sequence[Attempt]) -> float:
    return sum(attempt.verdict == "right" for attempt in attempts) / len(attempts)
