"""Teacher rewards: what a proposal earns its teacher.

`paper`: a teacher earns 1 - s for a problem of which a share s of the attempts is correct, and
nothing where s is 0: the best problem is the hardest one that can be solved. `learnability` and
`regret` pay for what can be learned from: problems solved as often as not, and problems on which
students differ. Covered: invalid proposals, repetitions, zero-pass and all-pass problems. Not
covered: whether a hard problem is hard for a good reason.
"""

from collections.abc import Callable
from typing import Any

from pydantic import Field

from redqueen.config.registry import Choice, Entry, Registry
from redqueen.core.state import Judged
from redqueen.records import Rejection

TeacherReward = Callable[[Judged, Any], float]
"""From what came of a proposal, and the settings."""


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


class Learnability(Paper):
    """Sampling for learnability (Rutherford et al. 2024, arXiv 2408.15099)."""


class Regret(Paper):
    """PAIRED (Dennis et al. 2020, arXiv 2012.02096), with the other students as antagonists."""


def pay_difficulty(judged: Judged, settings: Paper) -> float:
    """1 - s, where s is the share of correct attempts: harder problems earn more."""
    return _pay(judged, settings, 1 - judged.solve_rate)


def pay_learnability(judged: Judged, settings: Learnability) -> float:
    """The variance of one attempt, s (1 - s), estimated without bias from K of them."""
    rate, attempts = judged.solve_rate, judged.attempts
    return _pay(judged, settings, rate * (1 - rate) * attempts / max(1, attempts - 1))


def pay_regret(judged: Judged, settings: Regret) -> float:
    """How much more the best student solves than the mean of those that met the problem."""
    rates = judged.solve_rates or (0.0,)
    return _pay(judged, settings, max(rates) - sum(rates) / len(rates))


TEACHER_REWARDS: Registry[TeacherReward] = Registry(
    "teacher reward",
    {
        "paper": Entry(pay_difficulty, Paper),
        "azr": Entry(pay_difficulty, Azr),
        "learnability": Entry(pay_learnability, Learnability),
        "regret": Entry(pay_regret, Regret),
    },
)


def _pay(judged: Judged, settings: Paper, solved_sometimes: float) -> float:
    if isinstance(judged.verdict, Rejection):
        return settings.duplicate if judged.verdict.reason == "duplicate" else settings.invalid
    if judged.solve_rate == 0:
        return settings.zero_pass
    if judged.solve_rate == 1:
        return settings.all_pass
    return solved_sometimes + (settings.novelty if judged.novel else 0.0)
