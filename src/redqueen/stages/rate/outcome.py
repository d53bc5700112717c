"""Outcomes: from what came of a pairing's proposals to games.

The student is compared with what its rating promised, so that a strong student has to solve more to
win. By default whatever is no fair problem (invalid, a repetition, zero-pass) counts for the
student: impossible problems win no game that earns their teacher nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field

from redqueen.config.registry import Choice, Entry, Registry
from redqueen.core.state import Game
from redqueen.records import Pairing

Outcome = Callable[[Pairing, Sequence[float | None], Any], list[Game]]
"""From a pairing, the solve rate of each of its proposals (None where it is no problem) and the
settings: the games."""


class Threshold(Choice):
    threshold: float = Field(default=0.5, gt=0, lt=1)
    """The score from which on the student wins."""


def all_proposals(
    pairing: Pairing, solve_rates: Sequence[float | None], settings: Choice
) -> list[Game]:
    score = _mean_score(solve_rates)
    return [Game(score, score > pairing.expected)]


def paper(pairing: Pairing, solve_rates: Sequence[float | None], settings: Choice) -> list[Game]:
    solved = [rate for rate in solve_rates if rate is not None]
    score = sum(solved) / len(solved) if solved else 1.0
    return [Game(score, not solved or score > pairing.expected)]


def threshold(
    pairing: Pairing, solve_rates: Sequence[float | None], settings: Threshold
) -> list[Game]:
    score = _mean_score(solve_rates)
    return [Game(score, score >= settings.threshold)]


def per_problem(
    pairing: Pairing, solve_rates: Sequence[float | None], settings: Threshold
) -> list[Game]:
    scores = [rate or 1.0 for rate in solve_rates]
    return [Game(score, score >= settings.threshold) for score in scores]


OUTCOMES: Registry[Outcome] = Registry(
    "rating outcome",
    {
        "all_proposals": all_proposals,
        "paper": paper,
        "threshold": Entry(threshold, Threshold),
        "per_problem": Entry(per_problem, Threshold),
    },
)


def _mean_score(solve_rates: Sequence[float | None]) -> float:
    """Over all proposals; one that is no fair problem counts as solved."""
    return sum(rate or 1.0 for rate in solve_rates) / len(solve_rates)
