"""Outcomes: from what came of a pairing to games.

A student that solves more must never be rated lower for it, and a teacher is not the better one for
problems that earn nothing. So by default a pairing is two games: one about what the student solves,
one about what the teacher earns.
"""

from collections.abc import Callable
from typing import Any

from pydantic import Field

from redqueen.config.registry import Choice, Entry, Registry
from redqueen.core.state import Game, Played
from redqueen.records import Pairing

Outcome = Callable[[Pairing, Played, Any], list[Game]]
"""From a pairing, what came of it and the settings: the games."""


class Threshold(Choice):
    threshold: float = Field(default=0.5, gt=0, lt=1)
    """The solve rate from which on the student wins."""


def by_role(pairing: Pairing, played: Played, settings: Choice) -> list[Game]:
    """The student by its solve rate over valid problems, against what its rating promised; the
    teacher by its mean reward, against that of the step's teachers. Each moves one rating."""
    games = []
    if solved := _valid(played):
        score = sum(solved) / len(solved)
        games.append(Game(score, score > pairing.expected, "student"))
    if played.reward != played.expected_reward:
        games.append(Game(played.reward, played.reward < played.expected_reward, "teacher"))
    return games


def paper(pairing: Pairing, played: Played, settings: Choice) -> list[Game]:
    """One game: the solve rate over valid problems, against the expected one. Problems that nobody
    can solve win it for their teacher."""
    solved = _valid(played)
    score = sum(solved) / len(solved) if solved else 1.0
    return [Game(score, not solved or score > pairing.expected)]


def threshold(pairing: Pairing, played: Played, settings: Threshold) -> list[Game]:
    """One game: the solve rate over valid problems, against a fixed rate."""
    solved = _valid(played)
    score = sum(solved) / len(solved) if solved else 1.0
    return [Game(score, score >= settings.threshold)]


def per_problem(pairing: Pairing, played: Played, settings: Threshold) -> list[Game]:
    """Every valid problem is a game of its own: its solve rate against a fixed rate."""
    return [Game(score, score >= settings.threshold) for score in _valid(played)]


OUTCOMES: Registry[Outcome] = Registry(
    "rating outcome",
    {
        "by_role": by_role,
        "paper": paper,
        "threshold": Entry(threshold, Threshold),
        "per_problem": Entry(per_problem, Threshold),
    },
)


def _valid(played: Played) -> list[float]:
    return [rate for rate in played.solve_rates if rate is not None]
