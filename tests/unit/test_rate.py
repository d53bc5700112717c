"""Ratings are TrueSkill's, and each outcome rule says who won."""

import math
from collections.abc import Sequence
from random import Random
from statistics import NormalDist

import pytest
import trueskill

from redqueen.config.stages import RateConfig
from redqueen.core.state import Game, PairingState, Played, ProposalResult, StepState
from redqueen.core.trueskill import rate_game, win_probability
from redqueen.records import Member, Pairing, Proposal, Rating
from redqueen.stages.rate import rate, rate_pair
from redqueen.stages.rate.outcome import OUTCOMES
from tests.problems import rated_world

DEFAULT = RateConfig()


# TrueSkill


def reference(config: RateConfig) -> trueskill.TrueSkill:
    """The package, with a normal distribution that is exact far out too; its own has seven digits."""
    backend = (
        lambda x, mu=0, sigma=1: math.erfc((mu - x) / sigma / math.sqrt(2)) / 2,
        lambda x, mu=0, sigma=1: NormalDist(mu, sigma).pdf(x),
        lambda x, mu=0, sigma=1: NormalDist(mu, sigma).inv_cdf(x),
    )
    return trueskill.TrueSkill(
        config.mu, config.sigma, config.beta, config.tau, draw_probability=0, backend=backend
    )


@pytest.mark.parametrize(
    "config",
    [DEFAULT, RateConfig(mu=0, sigma=2, beta=0.5, tau=0), RateConfig(beta=10, tau=1)],
    ids=["default", "sharp", "vague"],
)
def test_a_game_changes_ratings_as_the_package_trueskill_does(config: RateConfig) -> None:
    rng, theirs = Random(1), reference(config)
    for _ in range(200):
        winner, loser = (
            Rating(rng.gauss(config.mu, 2 * config.sigma), rng.uniform(0.1, 1.5) * config.sigma)
            for _ in range(2)
        )
        expected = trueskill.rate_1vs1(
            theirs.create_rating(winner.mu, winner.sigma),
            theirs.create_rating(loser.mu, loser.sigma),
            env=theirs,
        )
        after = rate_game(winner, loser, config)
        assert [rating.mu for rating in after] == pytest.approx(
            [rating.mu for rating in expected], rel=1e-6, abs=1e-6
        )
        assert [rating.sigma for rating in after] == pytest.approx(
            [rating.sigma for rating in expected], rel=1e-6
        )


def test_a_season_of_games_ends_in_the_ratings_of_the_package_trueskill() -> None:
    rng, theirs = Random(2), reference(DEFAULT)
    ours = [Rating(DEFAULT.mu, DEFAULT.sigma) for _ in range(6)]
    others = [theirs.create_rating() for _ in range(6)]
    for _ in range(300):
        first, second = sorted(rng.sample(range(6), 2), key=lambda place: place + rng.gauss(0, 2))
        ours[first], ours[second] = rate_game(ours[first], ours[second], DEFAULT)
        others[first], others[second] = trueskill.rate_1vs1(
            others[first], others[second], env=theirs
        )
    assert [rating.mu for rating in ours] == pytest.approx([rating.mu for rating in others])
    assert [rating.sigma for rating in ours] == pytest.approx([rating.sigma for rating in others])
    assert ours == sorted(ours, key=lambda rating: -rating.mu)  # lower numbers win more often


def test_win_probabilities_add_up_and_follow_skill() -> None:
    strong, weak = Rating(30, 1), Rating(25, 1)
    wins, loses = win_probability(strong, weak, DEFAULT), win_probability(weak, strong, DEFAULT)
    assert wins + loses == pytest.approx(1)
    assert win_probability(weak, weak, DEFAULT) == 0.5
    assert wins == pytest.approx(NormalDist().cdf(5 / (2 + 2 * DEFAULT.beta**2) ** 0.5))
    lead = win_probability(Rating(DEFAULT.beta, 1e-9), Rating(0, 1e-9), DEFAULT)
    assert lead == pytest.approx(0.76, abs=0.005)


@pytest.mark.parametrize("lead", [40, 400, 4000, 1e6])
def test_a_surprise_beyond_all_measure_stays_finite(lead: float) -> None:
    won, lost = rate_game(Rating(0, 1), Rating(lead, 1), DEFAULT)
    assert 0 < won.mu < lost.mu < lead
    assert 0 < won.sigma < 1.1 and 0 < lost.sigma < 1.1


def test_a_foregone_conclusion_changes_almost_nothing() -> None:
    won, lost = rate_game(Rating(100, 1), Rating(0, 1), DEFAULT)
    assert [won.mu, lost.mu] == pytest.approx([100, 0])
    assert won.sigma == pytest.approx((1 + DEFAULT.tau**2) ** 0.5)


# outcomes


def games(
    outcome: str,
    expected: float,
    solve_rates: Sequence[float | None],
    reward: float = 0.0,
    **settings: float,
) -> list[tuple[float, bool]]:
    """The step's teachers earn 0 on average."""
    pairing = Pairing(Member("T0", "teacher", 0), Member("S0", "student", 1), expected)
    choice = OUTCOMES.choose({"type": outcome, **settings})
    played = Played(tuple(solve_rates), reward, 0.0)
    return [
        (round(game.score, 9), game.student_won)
        for game in OUTCOMES[outcome](pairing, played, choice)
    ]


@pytest.mark.parametrize(
    ("outcome", "expected", "solve_rates", "scores"),
    [
        ("by_role", 0.5, [0.75, 0.5], [(0.625, True)]),
        ("by_role", 0.7, [0.75, None, 0.5], [(0.625, False)]),
        ("by_role", 0.625, [0.75, 0.5], [(0.625, False)]),  # no more than was expected
        ("by_role", 0.2, [0.25, None, 0.0], [(0.125, False)]),  # unsolved is unsolved
        ("by_role", 0.9, [None, None], []),
        ("paper", 0.4, [0.25, None, 0.5], [(0.375, False)]),
        ("paper", 0.3, [0.25, None, 0.5], [(0.375, True)]),
        ("paper", 0.3, [0.0, 0.0], [(0.0, False)]),  # impossible problems win
        ("paper", 0.99, [None, None], [(1.0, True)]),  # no valid problem is a student's win
        ("threshold", 0.99, [0.5, 0.5], [(0.5, True)]),  # whatever was expected
        ("threshold", 0.01, [0.25, 0.5], [(0.375, False)]),
        (
            "per_problem",
            0.99,
            [0.25, None, 0.5, 0.0],
            [(0.25, False), (0.5, True), (0.0, False)],
        ),
    ],
)
def test_an_outcome_rule_says_who_won(
    outcome: str, expected: float, solve_rates: list[float | None], scores: list[tuple[float, bool]]
) -> None:
    assert games(outcome, expected, solve_rates) == scores


def test_every_outcome_rule_is_tested() -> None:
    assert set(OUTCOMES) == {"by_role", "paper", "threshold", "per_problem"}


def test_a_teacher_is_rated_by_what_it_earns_beside_the_others() -> None:
    assert games("by_role", 0.5, [0.75, 0.5], reward=0.2) == [(0.625, True), (0.2, False)]
    assert games("by_role", 0.5, [0.75, 0.5], reward=-0.2) == [(0.625, True), (-0.2, True)]


def test_the_threshold_is_a_setting() -> None:
    assert games("threshold", 0.5, [0.5], threshold=0.6) == [(0.5, False)]
    assert games("per_problem", 0.5, [0.5, 0.75], threshold=0.6) == [(0.5, False), (0.75, True)]


# the stage


def rated(
    state: StepState, solve_rates: Sequence[float | None], reward: float = 0.0
) -> dict[str, Rating]:
    """Ratings after T0 and S0 have played, with these solve rates of its proposals; the first two
    members where there are no roles."""
    members = state.world.members
    teacher = next((member for member in members if member.role != "student"), members[0])
    student = next(member for member in members if member.role != "teacher")
    played = PairingState(0, Pairing(teacher, student, 0.5))
    state.pairings = [played]
    state.results = [
        ProposalResult(played, number, Proposal("code_o", ""), solve_rate=solve_rate, reward=reward)
        for number, solve_rate in enumerate(solve_rates)
    ]
    rate([state])
    return {member.id: member.rating for member in state.world.members}


def test_the_stage_rates_both_sides_of_a_pairing_and_nobody_else() -> None:
    state = StepState(rated_world([25.0] * 2, [25.0] * 2, "rate.outcome=paper", sigma=8), 1)
    before = Rating(25.0, 8)
    after = rated(state, [0.25, 0.5])
    assert state.pairings[0].games == [Game(0.375, False)]
    config = state.world.config.rate
    assert (after["T0"], after["S0"]) == rate_game(before, before, config)
    assert after["T1"] == after["S1"] == before


def test_by_default_each_side_is_rated_by_a_game_of_its_own() -> None:
    """T0's problems are solved less than T1's, but earn less too: S0 falls, and so does T0."""
    state = StepState(rated_world([25.0] * 2, [25.0] * 2, sigma=8), 1)
    state.pairings = [
        PairingState(number, Pairing(teacher, student, 0.5))
        for number, (teacher, student) in enumerate(
            zip(state.world.members[:2], state.world.members[2:], strict=True)
        )
    ]
    state.results = [
        ProposalResult(match, 0, Proposal("code_o", ""), solve_rate=solve_rate, reward=reward)
        for match, solve_rate, reward in zip(state.pairings, (0.0, 0.75), (0.0, 0.25), strict=True)
    ]
    rate([state])
    after = {member.id: member.rating for member in state.world.members}
    won, lost = rate_game(Rating(25.0, 8), Rating(25.0, 8), state.world.config.rate)
    assert (after["S0"], after["S1"]) == (lost, won)
    assert (after["T0"], after["T1"]) == (lost, won)


@pytest.mark.parametrize("rates", [(0.05, 0.2), (0.4, 0.6), (0.85, 0.95)])
def test_a_student_that_solves_more_is_rated_higher_however_hard_the_problems_are(
    rates: tuple[float, float],
) -> None:
    world = rated_world([25.0], [25.0, 25.0], sigma=8)
    rng = Random(0)
    for step in range(40):
        state = StepState(world, step)
        (teacher, *students), config = world.members, world.config.rate
        state.pairings = [
            PairingState(
                n, Pairing(teacher, one, win_probability(one.rating, teacher.rating, config))
            )
            for n, one in enumerate(students)
        ]
        state.results = [
            ProposalResult(
                match,
                number,
                Proposal("code_o", ""),
                solve_rate=sum(rng.random() < rates[match.number] for _ in range(8)) / 8,
            )
            for match in state.pairings
            for number in range(12)
        ]
        rate([state])
    weaker, better = (world.by_id(name).rating for name in ("S0", "S1"))
    assert better.mu > weaker.mu + 1 and better.bound > weaker.bound


@pytest.mark.parametrize(
    ("teachers", "settings"), [([], ["match.scheme=self_play"]), ([], []), ([25.0], [])],
    ids=["self-play", "fixed problems", "no proposals"],
)  # fmt: skip
def test_self_play_fixed_problems_and_a_pairing_without_proposals_are_no_game(
    teachers: list[float], settings: list[str]
) -> None:
    state = StepState(rated_world(teachers, [25.0, 30.0], *settings), 1)
    before = {member.id: member.rating for member in state.world.members}
    assert rated(state, [] if teachers else [0.5]) == before
    assert state.pairings[0].games == []


def test_ratings_follow_the_games_one_after_another() -> None:
    state = StepState(rated_world([25.0], [25.0], "rate.outcome=per_problem", sigma=8), 1)
    before, config = Rating(25.0, 8), state.world.config.rate
    after = rated(state, [1.0, 0.25])
    student_first, teacher_first = rate_game(before, before, config)
    teacher, student = rate_game(teacher_first, student_first, config)
    assert (after["T0"], after["S0"]) == (teacher, student)
    assert rate_pair(before, before, state.pairings[0].games, config) == (teacher, student)
    assert rate_pair(before, before, [], config) == (before, before)
