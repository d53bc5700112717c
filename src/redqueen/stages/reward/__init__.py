"""The reward stage: what every proposal earns its teacher, every attempt its student, and every
turn of a game its author."""

from collections import defaultdict
from collections.abc import Sequence

from redqueen.core.state import Judged, ProposalResult, StepState
from redqueen.records import Attempt, Author, Problem, Rejection
from redqueen.stages.reward.people import Strengths, fit_bradley_terry
from redqueen.stages.reward.student import STUDENT_REWARDS
from redqueen.stages.reward.teacher import TEACHER_REWARDS
from redqueen.tasks import load_kind
from redqueen.tasks.games import GAMES


def reward(states: Sequence[StepState]) -> None:
    for state in states:
        _reward_world(state)


def _reward_world(state: StepState) -> None:
    teacher, student = state.world.config.reward.teacher, state.world.config.reward.student
    reward_teacher, reward_student = TEACHER_REWARDS[teacher.type], STUDENT_REWARDS[student.type]
    behaviours = set(state.world.behaviours)
    for result in state.results:
        if isinstance(result.verdict, Problem):
            result.solve_rate = solve_rate(result.attempts)
            result.novel = result.behaviour not in behaviours
            behaviours.add(result.behaviour)
        result.reward = reward_teacher(_judged(result), teacher.options)
    _add_people(state)
    for result, _ in [*state.posed_problems, *state.replayed]:
        result.solve_rate = solve_rate(result.attempts)
    for result in (*state.results, *state.posed, *state.replays):
        result.attempt_rewards = [
            0.0 if attempt.verdict == "voided" else reward_student(attempt, student.options)
            for attempt in result.attempts
        ]
        _reward_game(result)


def _reward_game(result: ProposalResult) -> None:
    """What a game's turns earn, and what it adds to the attempts."""
    play = result.play
    if play is None:
        return
    if isinstance(result.verdict, Rejection):  # a voided problem
        play.rewards = [0.0] * len(play.turns)
        return
    pay = GAMES[play.choice.type].pay(play, play.choice.options)
    assert len(pay.turns) == len(play.turns), f"the game {play.game} pays for each of its turns"
    play.rewards = list(pay.turns)
    for place, extra in pay.attempts.items():
        result.attempt_rewards[place] += extra


def _add_people(state: StepState) -> None:
    """What people think of a problem like this one, from this teacher, where that counts."""
    weight, comparisons = state.world.config.reward.people_weight, state.world.comparisons
    if not (weight and comparisons):
        return
    strengths = Strengths(fit_bradley_terry(comparisons))
    terms = []
    for result, problem in state.solvable:
        structure = load_kind(problem.kind).structure(problem)
        terms.append(weight * strengths.preference(result.teacher.member, structure))
        result.reward += terms[-1]
    if terms:
        state.metrics["reward/people"] = sum(terms) / len(terms)


def _judged(result: ProposalResult) -> Judged:
    if result.solve_rate is None:
        return Judged(result.verdict)
    by_student: dict[Author | None, list[Attempt]] = defaultdict(list)
    for attempt in result.attempts:
        by_student[attempt.author].append(attempt)
    return Judged(
        result.verdict,
        result.solve_rate,
        len(result.attempts),
        tuple(map(solve_rate, by_student.values())),
        result.novel,
    )


def solve_rate(attempts: Sequence[Attempt]) -> float:
    return sum(attempt.verdict == "correct" for attempt in attempts) / len(attempts)
