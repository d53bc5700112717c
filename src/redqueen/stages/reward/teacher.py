"""Teacher rewards: what a proposal earns its teacher.

`paper`: a teacher earns 1 - s for a problem that the matched student solves in a share s of its
attempts, and nothing where s is 0: the best problem is the hardest one that can be solved. Covered:
invalid proposals, repetitions, zero-pass and all-pass problems. Not covered: whether a hard problem
is hard for a good reason.
"""

from collections.abc import Callable
from typing import Any

from pydantic import Field

from redqueen.config.registry import Choice, Entry, Registry
from redqueen.records import Problem, Rejection

TeacherReward = Callable[[Problem | Rejection, float, bool, Any], float]
"""From the verdict on a proposal, the solve rate (0 for a rejection), whether the problem behaves
like none before it, and the settings."""


class Paper(Choice):
    """PopuLoRA (arXiv 2605.16727)."""

    invalid: float = -1.0
    """A proposal that is not a problem."""
    duplicate: float = -0.5
    """A problem that was posed before."""
    zero_pass: float = 0.0
    """A problem that no attempt solves."""
    all_pass: float = 0.0
    """A problem that every attempt solves."""
    novelty: float = Field(default=0.0, ge=0)
    """Added to what a problem solved sometimes earns, where it behaves like none before it in this
    world."""


class Azr(Paper):
    """Absolute Zero (arXiv 2505.03335)."""

    zero_pass: float = -0.5
    """A problem that no attempt solves."""
    all_pass: float = -0.5
    """A problem that every attempt solves."""


def reward_difficulty(
    verdict: Problem | Rejection, solve_rate: float, novel: bool, settings: Paper
) -> float:
    if isinstance(verdict, Rejection):
        return settings.duplicate if verdict.reason == "duplicate" else settings.invalid
    if solve_rate == 0:
        return settings.zero_pass
    if solve_rate == 1:
        return settings.all_pass
    return 1 - solve_rate + (settings.novelty if novel else 0.0)


TEACHER_REWARDS: Registry[TeacherReward] = Registry(
    "teacher reward",
    {"paper": Entry(reward_difficulty, Paper), "azr": Entry(reward_difficulty, Azr)},
)
