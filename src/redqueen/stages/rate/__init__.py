"""The rate stage: who won each pairing, and what that says about skill."""

import statistics
from collections.abc import Sequence

from redqueen.config.stages import RateConfig
from redqueen.core.state import Game, PairingState, Played, ProposalResult, StepState
from redqueen.core.trueskill import rate_game
from redqueen.records import Rating
from redqueen.stages.rate.outcome import OUTCOMES
from redqueen.stages.rate.roles import rate_roles


def rate(states: Sequence[StepState]) -> None:
    for state in states:
        if state.world.config.is_rated:
            _rate_world(state)
        rate_roles(state)


def _rate_world(state: StepState) -> None:
    world, config = state.world, state.world.config.rate
    outcome = OUTCOMES[config.outcome.type]
    mean_teacher = _mean_rating(
        [member.rating for member in world.members if member.role == "teacher"]
    )
    for match, played in _what_came(state):
        games = outcome(match.pairing, played, config.outcome.options)
        # a teacher is rated once for its problems, however many students meet them
        match.games = [game for game in games if match.lead is None or game.rates != "teacher"]
        teacher = world.by_id(match.pairing.teacher.id)
        student = world.by_id(match.pairing.student.id)
        ratings = rate_pair(teacher.rating, student.rating, match.games, config, mean_teacher)
        for member, rating in zip((teacher, student), ratings, strict=True):
            if rating != member.rating:
                world.change(member.id, rating=rating)


def rate_pair(
    teacher: Rating,
    student: Rating,
    games: Sequence[Game],
    config: RateConfig,
    mean_teacher: Rating | None = None,
) -> tuple[Rating, Rating]:
    """The ratings of teacher and student after their games."""
    for game in games:
        opponent = student if game.rates != "teacher" or mean_teacher is None else mean_teacher
        if game.student_won:
            winner, loser = rate_game(opponent, teacher, config)
            after = loser, winner
        else:
            after = rate_game(teacher, opponent, config)
        teacher = teacher if game.rates == "student" else after[0]
        student = student if game.rates == "teacher" else after[1]
    return teacher, student


def _what_came(state: StepState) -> list[tuple[PairingState, Played]]:
    """Of every pairing that has proposals."""
    rewards, rates = dict[int, float](), dict[int, tuple[float | None, ...]]()
    for match in state.pairings:
        results = [result for result in state.results if result.match is (match.lead or match)]
        if results:
            student = match.pairing.student.id
            rates[match.number] = tuple(_solve_rate(result, student) for result in results)
            rewards[match.number] = statistics.fmean(result.reward for result in results)
    expected = statistics.fmean(rewards.values()) if rewards else 0.0
    return [
        (match, Played(rates[match.number], rewards[match.number], expected))
        for match in state.pairings
        if match.number in rates
    ]


def _solve_rate(result: ProposalResult, student: str) -> float | None:
    """Of one of the students that met the problem."""
    if not (attempts := result.attempts_of(student)):
        return result.solve_rate
    verdicts = [attempt.verdict == "correct" for attempt in attempts]
    return None if result.solve_rate is None else sum(verdicts) / len(verdicts)


def _mean_rating(ratings: Sequence[Rating]) -> Rating:
    return Rating(
        statistics.fmean(rating.mu for rating in ratings),
        statistics.fmean(rating.sigma for rating in ratings),
    )
