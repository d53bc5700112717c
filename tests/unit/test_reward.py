"""What proposals and attempts earn: the constants of the paper, those of Absolute Zero, and every
one of them a setting."""

import pytest

from redqueen.config.stages import RewardConfig
from redqueen.records import Attempt, Problem, Rejection
from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.stages.reward import solve_rate, student_reward, teacher_reward

PROBLEM = Problem(
    "code_o",
    "def f(x): return x\n",
    ("1",),
    ("1",),
    "def f(x):\n    return x",
    Complexity(3, 1, 1, 1),
    1,
)
PAPER, AZR = RewardConfig(), RewardConfig(variant="azr")


@pytest.mark.parametrize(
    ("config", "rate", "earned"),
    [
        (PAPER, 0.0, 0.0), (PAPER, 0.125, 0.875), (PAPER, 0.5, 0.5), (PAPER, 0.875, 0.125), (PAPER, 1.0, 0.0),
        (AZR, 0.0, -0.5), (AZR, 0.125, 0.875), (AZR, 0.5, 0.5), (AZR, 0.875, 0.125), (AZR, 1.0, -0.5),
        (RewardConfig(unsolved=-0.25, trivial=-0.75), 0.0, -0.25), (RewardConfig(unsolved=-0.25, trivial=-0.75), 1.0, -0.75),
        (RewardConfig(variant="azr", unsolved=0.0), 0.0, 0.0), (RewardConfig(variant="azr", unsolved=0.0), 1.0, -0.5),
    ],
)  # fmt: skip
def test_a_problem_earns_its_difficulty_unless_nobody_or_everybody_solves_it(
    config: RewardConfig, rate: float, earned: float
) -> None:
    assert teacher_reward(PROBLEM, rate, False, config) == pytest.approx(earned)


@pytest.mark.parametrize(
    ("reason", "config", "earned"),
    [
        ("malformed", PAPER, -1.0), ("timeout", PAPER, -1.0), ("unstable", PAPER, -1.0), ("duplicate", PAPER, -0.5),
        ("malformed", AZR, -1.0), ("duplicate", RewardConfig(duplicate=0.1, invalid=-2), 0.1), ("unsafe", RewardConfig(duplicate=0.1, invalid=-2), -2.0),
    ],
)  # fmt: skip
def test_what_is_no_problem_earns_the_setting_for_it(
    reason: str, config: RewardConfig, earned: float
) -> None:
    assert teacher_reward(Rejection(reason), None, False, config) == earned


def test_new_behaviour_earns_more_only_between_trivial_and_unsolved() -> None:
    config = RewardConfig(novelty=0.2)
    assert teacher_reward(PROBLEM, 0.5, True, config) == pytest.approx(0.7)
    assert teacher_reward(PROBLEM, 0.5, False, config) == pytest.approx(0.5)
    assert [teacher_reward(PROBLEM, rate, True, config) for rate in (0.0, 1.0)] == [0.0, 0.0]
    assert teacher_reward(PROBLEM, 0.5, True, PAPER) == teacher_reward(PROBLEM, 0.5, False, PAPER)


def attempts(*verdicts: str) -> list[Attempt]:
    return [Attempt(PROBLEM, "", verdict) for verdict in verdicts]  # type: ignore[arg-type]


def test_students_earn_by_verdict() -> None:
    tried = attempts("correct", "wrong", "malformed")
    assert [student_reward(attempt, PAPER) for attempt in tried] == [1.0, -0.5, -1.0]
    assert [
        student_reward(attempt, RewardConfig(correct=2, wrong=0, malformed=-3)) for attempt in tried
    ] == [2, 0, -3]


def test_the_solve_rate_is_the_share_of_right_attempts() -> None:
    assert solve_rate(attempts("correct", "wrong", "malformed", "right")) == 0.5
    assert solve_rate(attempts("wrong", "malformed")) == 0
