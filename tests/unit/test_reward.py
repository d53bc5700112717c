"""What proposals and attempts earn: the constants of the paper, those of Absolute Zero, and every
one of them a setting."""

import math

import pytest

from redqueen.config.registry import Choice
from redqueen.config.stages import RewardConfig
from redqueen.core.state import Judged, PairingState, ProposalResult, StepState
from redqueen.records import Attempt, Pairing, Problem, Proposal, Rejection
from redqueen.stages.reward import reward, solve_rate
from redqueen.stages.reward.student import STUDENT_REWARDS
from redqueen.stages.reward.teacher import TEACHER_REWARDS
from tests.problems import addition, rated_world

PROBLEM = addition(0)


def paper(**settings: float) -> Choice:
    return RewardConfig.model_validate({"teacher": {"type": "paper", **settings}}).teacher


def azr(**settings: float) -> Choice:
    return RewardConfig.model_validate({"teacher": {"type": "azr", **settings}}).teacher


def earn(verdict: Problem | Rejection, rate: float, novel: bool, choice: Choice) -> float:
    return TEACHER_REWARDS[choice.type](Judged(verdict, rate, 8, (rate,), novel), choice)


@pytest.mark.parametrize(
    ("choice", "rate", "earned"),
    [
        (paper(), 0.0, 0.0), (paper(), 0.125, 0.875), (paper(), 0.5, 0.5), (paper(), 0.875, 0.125), (paper(), 1.0, 0.0),
        (azr(), 0.0, -0.5), (azr(), 0.125, 0.875), (azr(), 0.5, 0.5), (azr(), 0.875, 0.125), (azr(), 1.0, -0.5),
        (paper(zero_pass=-0.25, all_pass=-0.75), 0.0, -0.25), (paper(zero_pass=-0.25, all_pass=-0.75), 1.0, -0.75),
        (azr(zero_pass=0.0), 0.0, 0.0), (azr(zero_pass=0.0), 1.0, -0.5),
    ],
)  # fmt: skip
def test_a_problem_earns_its_difficulty_unless_nobody_or_everybody_solves_it(
    choice: Choice, rate: float, earned: float
) -> None:
    assert earn(PROBLEM, rate, False, choice) == pytest.approx(earned)


@pytest.mark.parametrize(
    ("reason", "choice", "earned"),
    [
        ("malformed", paper(), -1.0), ("timeout", paper(), -1.0), ("unstable", paper(), -1.0), ("duplicate", paper(), -0.5),
        ("malformed", azr(), -1.0), ("duplicate", paper(duplicate=0.1, invalid=-2), 0.1), ("unsafe", paper(duplicate=0.1, invalid=-2), -2.0),
    ],
)  # fmt: skip
def test_what_is_no_problem_earns_the_setting_for_it(
    reason: str, choice: Choice, earned: float
) -> None:
    assert earn(Rejection(reason), 0.0, False, choice) == earned


def test_new_behaviour_earns_more_only_between_zero_pass_and_all_pass() -> None:
    choice = paper(novelty=0.2)
    assert earn(PROBLEM, 0.5, True, choice) == pytest.approx(0.7)
    assert earn(PROBLEM, 0.5, False, choice) == pytest.approx(0.5)
    assert [earn(PROBLEM, rate, True, choice) for rate in (0.0, 1.0)] == [0.0, 0.0]
    assert earn(PROBLEM, 0.5, True, paper()) == earn(PROBLEM, 0.5, False, paper())


def test_learnability_is_the_variance_of_an_attempt_without_bias() -> None:
    """Over all outcomes of K attempts of chance p it earns p (1 - p) on average, whatever K is."""
    choice = TEACHER_REWARDS.choose("learnability")
    for attempts_each in (2, 4, 8):
        for p in (0.1, 0.5, 0.8):
            mean = sum(
                math.comb(attempts_each, solved)
                * p**solved
                * (1 - p) ** (attempts_each - solved)
                * TEACHER_REWARDS["learnability"](
                    Judged(PROBLEM, solved / attempts_each, attempts_each), choice
                )
                for solved in range(attempts_each + 1)
            )
            assert mean == pytest.approx(p * (1 - p))


@pytest.mark.parametrize(
    ("rates", "earned"), [((1.0, 0.0), 0.5), ((0.75, 0.25), 0.25), ((0.5, 0.5), 0.0), ((0.9, 0.0, 0.0), 0.6)]
)  # fmt: skip
def test_regret_is_how_much_the_best_student_is_above_the_mean(
    rates: tuple[float, ...], earned: float
) -> None:
    judged = Judged(PROBLEM, sum(rates) / len(rates), 8, rates)
    choice = TEACHER_REWARDS.choose("regret")
    assert TEACHER_REWARDS["regret"](judged, choice) == pytest.approx(earned)


@pytest.mark.parametrize("name", TEACHER_REWARDS)
def test_every_reward_has_settings_for_what_teaches_nothing(name: str) -> None:
    settings = {"zero_pass": -0.1, "all_pass": -0.2, "invalid": -0.3, "duplicate": -0.4}
    choice = TEACHER_REWARDS.choose({"type": name, **settings})
    assert [
        earn(PROBLEM, 0.0, False, choice),
        earn(PROBLEM, 1.0, False, choice),
        earn(Rejection("voided"), 0.0, False, choice),
        earn(Rejection("duplicate"), 0.0, False, choice),
    ] == list(settings.values())


def attempts(*verdicts: str) -> list[Attempt]:
    return [Attempt(PROBLEM, "", verdict) for verdict in verdicts]  # type: ignore[arg-type]


def test_students_earn_by_verdict() -> None:
    def earned(**settings: float) -> list[float]:
        choice = RewardConfig.model_validate({"student": {"type": "verdict", **settings}}).student
        give = STUDENT_REWARDS[choice.type]
        return [give(attempt, choice) for attempt in attempts("correct", "wrong", "malformed")]

    assert earned() == [1.0, -0.5, -1.0]
    assert earned(correct=2, wrong=0, malformed=-3) == [2, 0, -3]


def test_the_solve_rate_is_the_share_of_correct_attempts() -> None:
    assert solve_rate(attempts("correct", "wrong", "malformed", "correct")) == 0.5
    assert solve_rate(attempts("wrong", "malformed")) == 0


def test_the_stage_rewards_every_proposal_and_attempt_and_counts_a_new_behaviour_once() -> None:
    world = rated_world([25.0], [25.0], "reward.teacher.novelty=0.25")
    world.behaviours = {"seen before"}
    teacher, student = world.members
    pairing = PairingState(0, Pairing(teacher, student, 0.5))
    half = attempts("correct", "wrong")
    verdicts: list[tuple[Problem | Rejection, list[Attempt], str]] = [
        (PROBLEM, half, "new"),
        (PROBLEM, half, "new"),
        (PROBLEM, half, "seen before"),
        (PROBLEM, attempts("malformed", "wrong"), "other"),
        (Rejection("timeout"), [], ""),
    ]
    state = StepState(world, 1)
    for verdict, tries, behaviour in verdicts:
        proposal = Proposal("code_o", "")
        state.results.append(
            ProposalResult(
                pairing, 0, proposal, verdict=verdict, attempts=tries, behaviour=behaviour
            )
        )
    reward([state])
    assert [result.solve_rate for result in state.results] == [0.5, 0.5, 0.5, 0.0, None]
    assert [result.novel for result in state.results] == [True, False, False, True, False]
    assert [result.reward for result in state.results] == [0.75, 0.5, 0.5, 0.0, -1.0]
    assert [result.attempt_rewards for result in state.results] == [
        *[[1.0, -0.5]] * 3, [-1.0, -0.5], [],
    ]  # fmt: skip
    assert world.behaviours == {"seen before"}  # they are added when the step is recorded
