"""The reward stage: what every proposal earns its teacher, and every attempt its student."""

from collections.abc import Sequence

from redqueen.core.state import StepState
from redqueen.records import Attempt, Problem
from redqueen.stages.reward.student import STUDENT_REWARDS
from redqueen.stages.reward.teacher import TEACHER_REWARDS


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
        result.reward = reward_teacher(
            result.verdict, result.solve_rate or 0.0, result.novel, teacher.options
        )
        result.attempt_rewards = [
            reward_student(attempt, student.options) for attempt in result.attempts
        ]


def solve_rate(attempts: Sequence[Attempt]) -> float:
    return sum(attempt.verdict == "correct" for attempt in attempts) / len(attempts)
