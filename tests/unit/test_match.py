"""Ratings are TrueSkill's, every member plays, near-balanced pairings are likelier, and each
outcome rule says who won."""

import math
from collections import Counter
from collections.abc import Sequence
from random import Random
from statistics import NormalDist

import pytest
import trueskill

from redqueen.config.stages import MatchConfig, RatingConfig
from redqueen.records import Member, Pairing, Rating
from redqueen.stages.match.schemes import SCHEMES, match
from redqueen.stages.rate.outcome import games, rated
from redqueen.stages.rate.ratings import chance, rate

DEFAULT = RatingConfig()


def members(
    teachers: Sequence[float], students: Sequence[float], sigma: float = 1.0
) -> list[Member]:
    """Members with these skills."""
    found = [
        Member(f"T{number}", "teacher", number, rating=Rating(mu, sigma))
        for number, mu in enumerate(teachers)
    ]
    return found + [
        Member(f"S{number}", "student", 100 + number, rating=Rating(mu, sigma))
        for number, mu in enumerate(students)
    ]


# ratings


def reference(config: RatingConfig) -> trueskill.TrueSkill:
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
    [DEFAULT, RatingConfig(mu=0, sigma=2, beta=0.5, tau=0), RatingConfig(beta=10, tau=1)],
    ids=["default", "sharp", "vague"],
)
def test_a_game_changes_ratings_as_the_package_trueskill_does(config: RatingConfig) -> None:
    draw, theirs = Random(1), reference(config)
    for _ in range(200):
        winner, loser = (
            Rating(draw.gauss(config.mu, 2 * config.sigma), draw.uniform(0.1, 1.5) * config.sigma)
            for _ in range(2)
        )
        expected = trueskill.rate_1vs1(
            theirs.create_rating(winner.mu, winner.sigma),
            theirs.create_rating(loser.mu, loser.sigma),
            env=theirs,
        )
        found = rate(winner, loser, config)
        assert [one.mu for one in found] == pytest.approx(
            [one.mu for one in expected], rel=1e-6, abs=1e-6
        )
        assert [one.sigma for one in found] == pytest.approx(
            [one.sigma for one in expected], rel=1e-6
        )


def test_a_season_of_games_ends_in_the_ratings_of_the_package_trueskill() -> None:
    draw, theirs = Random(2), reference(DEFAULT)
    mine = [DEFAULT.newborn() for _ in range(6)]
    others = [theirs.create_rating() for _ in range(6)]
    for _ in range(300):
        first, second = sorted(draw.sample(range(6), 2), key=lambda one: one + draw.gauss(0, 2))
        mine[first], mine[second] = rate(mine[first], mine[second], DEFAULT)
        others[first], others[second] = trueskill.rate_1vs1(
            others[first], others[second], env=theirs
        )
    assert [one.mu for one in mine] == pytest.approx([one.mu for one in others])
    assert [one.sigma for one in mine] == pytest.approx([one.sigma for one in others])
    assert mine == sorted(mine, key=lambda one: -one.mu)  # lower numbers win more often


def test_chances_add_up_and_follow_skill() -> None:
    strong, weak = Rating(30, 1), Rating(25, 1)
    assert chance(strong, weak, DEFAULT) + chance(weak, strong, DEFAULT) == pytest.approx(1)
    assert chance(weak, weak, DEFAULT) == 0.5
    assert chance(strong, weak, DEFAULT) == pytest.approx(
        NormalDist().cdf(5 / (2 + 2 * DEFAULT.beta**2) ** 0.5)
    )
    assert chance(Rating(DEFAULT.beta, 1e-9), Rating(0, 1e-9), DEFAULT) == pytest.approx(
        0.76, abs=0.005
    )


@pytest.mark.parametrize("lead", [40, 400, 4000, 1e6])
def test_a_surprise_beyond_all_measure_stays_finite(lead: float) -> None:
    won, lost = rate(Rating(0, 1), Rating(lead, 1), DEFAULT)
    assert 0 < won.mu < lost.mu < lead
    assert 0 < won.sigma < 1.1 and 0 < lost.sigma < 1.1


def test_a_foregone_conclusion_changes_almost_nothing() -> None:
    won, lost = rate(Rating(100, 1), Rating(0, 1), DEFAULT)
    assert [won.mu, lost.mu] == pytest.approx([100, 0])
    assert won.sigma == pytest.approx((1 + DEFAULT.tau**2) ** 0.5)


# schemes


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name != "self_play"])
@pytest.mark.parametrize(("teachers", "students"), [(1, 1), (4, 4), (2, 5), (5, 2), (1, 4), (3, 1)])
def test_every_member_plays_and_nobody_more_than_need_be(
    scheme: str, teachers: int, students: int
) -> None:
    config = MatchConfig.model_validate({"scheme": scheme})
    for step in range(1, 8):
        pairings = match(members([25.0] * teachers, [25.0] * students), step, Random(step), config)
        assert len(pairings) == max(teachers, students)
        for role, count in (("teacher", teachers), ("student", students)):
            played = Counter(getattr(pairing, role).id for pairing in pairings)
            assert len(played) == count
            assert max(played.values()) - min(played.values()) <= 1
        assert all(
            (pairing.teacher.role, pairing.student.role) == ("teacher", "student")
            for pairing in pairings
        )


def test_a_pairing_says_what_its_ratings_promise() -> None:
    pairing = match(members([20.0], [30.0]), 1, Random(0), MatchConfig())[0]
    assert pairing.expected == chance(pairing.student.rating, pairing.teacher.rating, DEFAULT) > 0.9


def partners(
    scheme: str, teachers: Sequence[float], students: Sequence[float]
) -> Counter[tuple[str, str]]:
    config = MatchConfig.model_validate({"scheme": scheme})
    draws = (match(members(teachers, students), step, Random(step), config) for step in range(600))
    return Counter(
        (pairing.teacher.id, pairing.student.id) for pairings in draws for pairing in pairings
    )


def test_pfsp_draws_pairs_in_proportion_to_their_balance() -> None:
    """One teacher and three students: the first pair is drawn by p (1 - p), and each of the others
    must still play, so look at the first."""
    skills, config = (25.0, 31.0, 37.0), MatchConfig()
    first = Counter(
        match(members([25.0], skills), step, Random(step), config)[0].student.id
        for step in range(4000)
    )
    balance = [
        p * (1 - p) for p in (chance(Rating(mu, 1), Rating(25, 1), DEFAULT) for mu in skills)
    ]
    for number, weight in enumerate(balance):
        assert first[f"S{number}"] / 4000 == pytest.approx(weight / sum(balance), abs=0.03)


def test_pfsp_pairs_equals_more_often_and_uniform_does_not() -> None:
    skills = (15.0, 25.0, 35.0)
    equals = [(f"T{number}", f"S{number}") for number in range(3)]
    shares = {
        scheme: sum(partners(scheme, skills, skills)[pair] for pair in equals) / 1800
        for scheme in ("pfsp", "uniform")
    }
    assert shares["uniform"] == pytest.approx(1 / 3, abs=0.05)
    assert shares["pfsp"] > 0.6


def test_pfsp_finds_pairs_where_no_game_is_open() -> None:
    assert set(partners("pfsp", [1e6, 1e6], [0.0, 0.0])) == {
        ("T0", "S0"),
        ("T0", "S1"),
        ("T1", "S0"),
        ("T1", "S1"),
    }


@pytest.mark.parametrize(
    ("teachers", "students"), [(3, 3), (2, 4), (4, 2), (3, 4), (4, 3), (2, 6), (4, 6)]
)
def test_in_a_round_robin_everybody_meets_everybody(teachers: int, students: int) -> None:
    config = MatchConfig(scheme="round_robin")
    world = members([25.0] * teachers, [25.0] * students)
    met: Counter[tuple[str, str]] = Counter()
    for step in range(1, teachers * students + 1):
        met.update(
            (pairing.teacher.id, pairing.student.id)
            for pairing in match(world, step, Random(0), config)
        )
    assert len(met) == teachers * students
    assert len(set(met.values())) == 1


def test_in_self_play_everybody_meets_itself() -> None:
    world = [Member(f"B{number}", "both", number) for number in range(3)]
    pairings = match(world, 1, Random(0), MatchConfig(scheme="self_play"))
    assert [(pairing.teacher.id, pairing.student.id, pairing.expected) for pairing in pairings] == [
        (f"B{number}", f"B{number}", 0.5) for number in range(3)
    ]


def test_equal_streams_give_equal_pairings() -> None:
    world = members([20.0, 25.0, 30.0], [20.0, 25.0, 30.0])
    assert match(world, 1, Random(5), MatchConfig()) == match(world, 1, Random(5), MatchConfig())


# outcomes


def won(
    outcome: str, expected: float, solve_rates: Sequence[float | None], **settings: object
) -> list[tuple[float, bool]]:
    teacher, student = members([25.0], [25.0])
    config = MatchConfig.model_validate({"outcome": outcome, **settings})
    return [
        (round(game.score, 9), game.student_won)
        for game in games(Pairing(teacher, student, expected), solve_rates, config)
    ]


@pytest.mark.parametrize(
    ("outcome", "expected", "solve_rates", "found"),
    [
        ("all_proposals", 0.5, [0.75, 0.5], [(0.625, True)]),
        ("all_proposals", 0.7, [0.75, 0.5], [(0.625, False)]),
        ("all_proposals", 0.625, [0.75, 0.5], [(0.625, False)]),  # no more than was expected
        (
            "all_proposals",
            0.6,
            [0.25, None, 0.0],
            [(0.75, True)],
        ),  # no problem, and one that nobody solves: both count for the student
        ("all_proposals", 0.9, [None, None], [(1.0, True)]),
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
            [(0.25, False), (1.0, True), (0.5, True), (1.0, True)],
        ),
    ],
)
def test_an_outcome_rule_says_who_won(
    outcome: str, expected: float, solve_rates: list[float | None], found: list[tuple[float, bool]]
) -> None:
    assert won(outcome, expected, solve_rates) == found


def test_the_threshold_is_a_setting() -> None:
    assert won("threshold", 0.5, [0.5], threshold=0.6) == [(0.5, False)]
    assert won("per_problem", 0.5, [0.5, 0.75], threshold=0.6) == [(0.5, False), (0.75, True)]


def test_self_play_and_a_pairing_without_proposals_are_no_game() -> None:
    assert won("all_proposals", 0.5, [0.5], scheme="self_play") == []
    assert won("per_problem", 0.5, []) == []


def test_ratings_follow_the_games_one_after_another() -> None:
    config = MatchConfig(outcome="per_problem")
    first, second = members([25.0], [25.0], sigma=8)
    teacher, student = first.rating, second.rating
    after = rated(teacher, student, games(Pairing(first, second, 0.5), [1.0, 0.25], config), config)
    student_first, teacher_first = rate(student, teacher, config.rating)
    assert after == rate(teacher_first, student_first, config.rating)
    assert rated(teacher, student, [], config) == (teacher, student)
