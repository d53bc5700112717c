"""The Rasch model: the chance of a correct answer is logistic in skill minus difficulty."""

import math
from collections.abc import Sequence

_PRIOR = 1 / 2.0**2
"""Precision of the prior on skills and difficulties, two logits wide: whoever solves all or nothing
has a finite skill."""
_ROUNDS = 100


def fit_rasch(correct: Sequence[Sequence[int]], attempts: int) -> tuple[list[float], list[float]]:
    """The likeliest skills and difficulties in logits, from correct answers [student][problem] out
    of `attempts` each. Skills are relative: their mean is zero."""
    skills = [0.0] * len(correct)
    difficulties = [0.0] * len(correct[0])
    for _ in range(_ROUNDS):
        moved = _climb(
            difficulties,
            skills,
            [sum(column) for column in zip(*correct, strict=True)],
            attempts,
            -1,
        )
        moved += _climb(skills, difficulties, [sum(row) for row in correct], attempts, 1)
        if moved < 1e-6:
            break
    mean = math.fsum(skills) / len(skills)
    return [skill - mean for skill in skills], [value - mean for value in difficulties]


def _climb(
    own: list[float], others: Sequence[float], solved: Sequence[int], attempts: int, sign: int
) -> float:
    """One damped Newton step for each of one side, in place; how far they moved in all."""
    moved = 0.0
    for place, value in enumerate(own):
        chances = [1 / (1 + math.exp(sign * (other - value))) for other in others]
        gradient = sign * (solved[place] - attempts * math.fsum(chances)) - _PRIOR * value
        curvature = attempts * math.fsum(p * (1 - p) for p in chances) + _PRIOR
        step = max(-1.0, min(1.0, gradient / curvature))
        own[place] += step
        moved += abs(step)
    return moved
