"""The reward stage: what a proposal earns its teacher, and an attempt its student.

A teacher earns 1 - s for a problem that the matched student solves in a share s of its attempts,
and nothing where s is 0: the best problem is the hardest one that can be solved. Covered: invalid
proposals, repetitions, problems that nobody or everybody solves. Not covered: whether a hard
problem is hard for a good reason.
"""

from collections.abc import Sequence

from redqueen.config.stages import RewardConfig
from redqueen.records import Attempt, Problem, Rejection

_SHARPNESS: dict[str, tuple[float, float]] = {"paper": (0.0, 0.0), "azr": (-0.5, -0.5)}
"""What problems that nobody or everybody solves earn, by variant."""


def teacher_reward(
    verdict: Problem | Rejection, solve_rate: float | None, novel: bool, config: RewardConfig
) -> float:
    if isinstance(verdict, Rejection):
        return config.duplicate if verdict.reason == "duplicate" else config.invalid
    assert solve_rate is not None
    unsolved, trivial = _SHARPNESS[config.variant]
    if solve_rate == 0:
        return unsolved if config.unsolved is None else config.unsolved
    if solve_rate == 1:
        return trivial if config.trivial is None else config.trivial
    return 1 - solve_rate + (config.novelty if novel else 0.0)


def student_reward(attempt: Attempt, config: RewardConfig) -> float:
    return {"correct": config.correct, "wrong": config.wrong, "malformed": config.malformed}[
        attempt.verdict
    ]


def solve_rate(attempts: Sequence[Attempt]) -> float:
    return sum(attempt.verdict == "correct" for attempt in attempts) / len(attempts)
