"""Who won: from what came of a pairing's proposals to ratings.

The student is compared with what its rating promised, so that a strong student has to solve more to
win. By default whatever is no fair problem (invalid, a repetition, solved by nobody) counts for the
student: impossible problems win no game that earns their teacher nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from redqueen.config.stages import MatchConfig
from redqueen.records import Pairing, Rating
from redqueen.stages.rate.ratings import rate


@dataclass(frozen=True, slots=True)
class Game:
    """The outcome of a pairing."""

    score: float
    """The student's."""
    student_won: bool


def games(pairing: Pairing, solve_rates: Sequence[float | None], config: MatchConfig) -> list[Game]:
    """The games of a pairing, from the solve rate of each of its proposals; None where there is no
    problem. None for self-play."""
    if config.scheme == "self_play" or not solve_rates:
        return []
    scores = [solved or 1.0 for solved in solve_rates]
    if config.outcome == "per_problem":
        return [Game(score, score >= config.threshold) for score in scores]
    if config.outcome == "paper":
        solved = [rate for rate in solve_rates if rate is not None]
        score = sum(solved) / len(solved) if solved else 1.0
        return [Game(score, not solved or score > pairing.expected)]
    score = sum(scores) / len(scores)
    return [
        Game(
            score,
            score >= config.threshold
            if config.outcome == "threshold"
            else score > pairing.expected,
        )
    ]


def rated(
    teacher: Rating, student: Rating, played: Sequence[Game], config: MatchConfig
) -> tuple[Rating, Rating]:
    """The ratings of teacher and student after their games."""
    for game in played:
        if game.student_won:
            student, teacher = rate(student, teacher, config.rating)
        else:
            teacher, student = rate(teacher, student, config.rating)
    return teacher, student
