"""The rate stage: who won each pairing, and what that says about skill."""

from collections.abc import Sequence

from redqueen.config.stages import RateConfig
from redqueen.core.state import Game, StepState
from redqueen.core.trueskill import rate_game
from redqueen.records import Rating
from redqueen.stages.rate.outcome import OUTCOMES


def rate(states: Sequence[StepState]) -> None:
    for state in states:
        if state.world.config.is_rated:
            _rate_world(state)


def _rate_world(state: StepState) -> None:
    world, config = state.world, state.world.config.rate
    outcome = OUTCOMES[config.outcome.type]
    for match in state.pairings:
        rates = [result.solve_rate for result in state.results if result.match is match]
        if not rates:
            continue
        match.games = outcome(match.pairing, rates, config.outcome.options)
        teacher = world.by_id(match.pairing.teacher.id)
        student = world.by_id(match.pairing.student.id)
        teacher_rating, student_rating = rate_pair(
            teacher.rating, student.rating, match.games, config
        )
        if match.games:
            world.change(teacher.id, rating=teacher_rating)
            world.change(student.id, rating=student_rating)


def rate_pair(
    teacher: Rating, student: Rating, games: Sequence[Game], config: RateConfig
) -> tuple[Rating, Rating]:
    """The ratings of teacher and student after their games."""
    for game in games:
        if game.student_won:
            student, teacher = rate_game(student, teacher, config)
        else:
            teacher, student = rate_game(teacher, student, config)
    return teacher, student
