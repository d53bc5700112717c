"""Student rewards: what an attempt earns its student."""

from collections.abc import Callable
from typing import Any

from redqueen.config.registry import Choice, Entry, Registry
from redqueen.records import Attempt

StudentReward = Callable[[Attempt, Any], float]


class Verdict(Choice):
    correct: float = 1.0
    """A correct answer."""
    wrong: float = -0.5
    """An answer in the right form that is wrong."""
    malformed: float = -1.0
    """An answer that cannot be read."""


def reward_verdict(attempt: Attempt, settings: Verdict) -> float:
    """A fixed reward for each verdict."""
    rewards = {
        "correct": settings.correct,
        "wrong": settings.wrong,
        "malformed": settings.malformed,
    }
    return rewards[attempt.verdict]


STUDENT_REWARDS: Registry[StudentReward] = Registry(
    "student reward", {"verdict": Entry(reward_verdict, Verdict)}
)
