"""Every member plays, and near-balanced pairings are likelier."""

from collections import Counter
from collections.abc import Sequence

import pytest

from redqueen.core.state import StepState
from redqueen.core.trueskill import win_probability
from redqueen.core.world import PastMember, World
from redqueen.records import Member, Pairing, Rating
from redqueen.stages.match import match
from redqueen.stages.match.schemes import SCHEMES
from tests.problems import rated_world


def pair(world: World, step: int = 1) -> list[Pairing]:
    state = StepState(world, step)
    match([state])
    assert [item.number for item in state.pairings] == list(range(len(state.pairings)))
    return [item.pairing for item in state.pairings]


def pair_often(
    scheme: str, teachers: Sequence[float], students: Sequence[float]
) -> Counter[tuple[str, str]]:
    world = rated_world(teachers, students, f"match.scheme={scheme}")
    return Counter(
        (pairing.teacher.id, pairing.student.id)
        for step in range(600)
        for pairing in pair(world, step)
    )


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name[-5:] != "_play"])
@pytest.mark.parametrize(("teachers", "students"), [(1, 1), (4, 4), (2, 5), (5, 2), (1, 4), (3, 1)])
def test_every_member_plays_and_nobody_more_than_need_be(
    scheme: str, teachers: int, students: int
) -> None:
    world = rated_world([25.0] * teachers, [25.0] * students, f"match.scheme={scheme}")
    for step in range(1, 8):
        pairings = pair(world, step)
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
    world = rated_world([20.0], [30.0])
    (pairing,) = pair(world)
    teacher, student = pairing.teacher.rating, pairing.student.rating
    assert pairing.expected == win_probability(student, teacher, world.config.rate) > 0.9


def test_pfsp_samples_pairs_in_proportion_to_their_balance() -> None:
    """One teacher and three students: the first pair is sampled by p (1 - p), and each of the others
    must still play, so look at the first."""
    skills = (25.0, 31.0, 37.0)
    world = rated_world([25.0], skills)
    first = Counter(pair(world, step)[0].student.id for step in range(4000))
    balance = [
        p * (1 - p)
        for p in (win_probability(Rating(mu, 1), Rating(25, 1), world.config.rate) for mu in skills)
    ]
    for number, weight in enumerate(balance):
        assert first[f"S{number}"] / 4000 == pytest.approx(weight / sum(balance), abs=0.03)


def test_pfsp_pairs_equals_more_often_and_uniform_does_not() -> None:
    skills = (15.0, 25.0, 35.0)
    equals = [(f"T{number}", f"S{number}") for number in range(3)]
    shares = {}
    for scheme in ("pfsp", "uniform"):
        counts = pair_often(scheme, skills, skills)
        shares[scheme] = sum(counts[pair] for pair in equals) / 1800
    assert shares["uniform"] == pytest.approx(1 / 3, abs=0.05)
    assert shares["pfsp"] > 0.6


def test_pfsp_finds_pairs_where_no_game_is_open() -> None:
    assert set(pair_often("pfsp", [1e6, 1e6], [0.0, 0.0])) == {
        ("T0", "S0"),
        ("T0", "S1"),
        ("T1", "S0"),
        ("T1", "S1"),
    }


@pytest.mark.parametrize(
    ("teachers", "students"), [(3, 3), (2, 4), (4, 2), (3, 4), (4, 3), (2, 6), (4, 6)]
)
def test_in_a_round_robin_everybody_meets_everybody(teachers: int, students: int) -> None:
    world = rated_world([25.0] * teachers, [25.0] * students, "match.scheme=round_robin")
    met: Counter[tuple[str, str]] = Counter()
    for step in range(1, teachers * students + 1):
        met.update((pairing.teacher.id, pairing.student.id) for pairing in pair(world, step))
    assert len(met) == teachers * students
    assert len(set(met.values())) == 1


def test_in_self_play_everybody_meets_itself() -> None:
    pairings = pair(rated_world([], [20.0, 25.0, 30.0], "match.scheme=self_play"))
    assert [(pairing.teacher.id, pairing.student.id, pairing.expected) for pairing in pairings] == [
        (f"B{number}", f"B{number}", 0.5) for number in range(3)
    ]


@pytest.mark.parametrize("members", [2, 3, 5])
def test_in_cross_play_everybody_proposes_and_solves_once_and_nobody_its_own(members: int) -> None:
    world = rated_world([], [25.0] * members, "match.scheme=cross_play")
    names, met = {member.id for member in world.members}, set()
    for step in range(30):
        pairings = pair(world, step)
        assert {pairing.teacher.id for pairing in pairings} == names
        assert {pairing.student.id for pairing in pairings} == names
        assert all(pairing.teacher.id != pairing.student.id for pairing in pairings)
        met |= {(pairing.teacher.id, pairing.student.id) for pairing in pairings}
    assert len(met) == members * (members - 1)


@pytest.mark.parametrize("scheme", ["pfsp", "cross_play"])
def test_more_students_meet_the_same_problems_where_that_is_asked_for(scheme: str) -> None:
    teachers = [] if scheme == "cross_play" else [25.0] * 4
    settings = (f"match.scheme={scheme}", "match.students_per_problem=3")
    state = StepState(rated_world(teachers, [25.0] * 4, *settings), 1)
    match([state])
    leads = [one for one in state.pairings if one.lead is None]
    assert len(leads) == 4 and len(state.pairings) == 12
    assert [one.number for one in state.pairings] == list(range(12))
    for lead in leads:
        group = [lead, *(one for one in state.pairings if one.lead is lead)]
        assert {one.pairing.teacher.id for one in group} == {lead.pairing.teacher.id}
        students = {one.pairing.student.id for one in group}
        assert len(students) == 3 and lead.pairing.teacher.id not in students
    played = Counter(one.pairing.student.id for one in state.pairings)
    assert max(played.values()) - min(played.values()) <= 1


def test_without_teachers_every_student_meets_the_fixed_problems() -> None:
    pairings = pair(rated_world([], [20.0, 25.0]))
    assert [(pairing.teacher.id, pairing.student.id, pairing.expected) for pairing in pairings] == [
        ("fixed", "S0", 0.5),
        ("fixed", "S1", 0.5),
    ]


def test_a_past_member_takes_one_side_of_a_share_of_the_pairings() -> None:
    hall = ("evolve.hall_of_fame.size=1", "evolve.hall_of_fame.share=0.25")
    world = rated_world([25.0] * 2, [25.0] * 2, *hall)
    world.hall_of_fame = [
        PastMember(Member("T0@10", "teacher", 4, rating=Rating(35.0, 1.0)), 10),
        PastMember(Member("S1@10", "student", 5), 10),
    ]
    pairings = [pairing for step in range(500) for pairing in pair(world, step)]
    past = [(pairing.teacher.id == "T0@10", pairing.student.id == "S1@10") for pairing in pairings]
    counts = Counter(past)
    assert counts[True, True] == 0
    assert counts[True, False] / 1000 == pytest.approx(0.125, abs=0.03)
    assert counts[False, True] / 1000 == pytest.approx(0.125, abs=0.03)
    against_past = {p.expected for p in pairings if p.teacher.id == "T0@10"}
    assert len(against_past) == 1 and max(against_past) < 0.1  # by its rating of then


def test_a_step_has_one_stream_and_another_step_another() -> None:
    world = rated_world([20.0, 25.0, 30.0], [20.0, 25.0, 30.0])
    assert pair(world, 1) == pair(world, 1)
    assert (
        len({tuple(pairing.student.id for pairing in pair(world, step)) for step in range(9)}) > 1
    )
