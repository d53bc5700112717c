"""A world begins as its settings say, and what is restored from JSON is the world that was."""

import json
from dataclasses import replace

from redqueen.config.toml import load_config
from redqueen.core.world import PastMember, World, member_id, new_world
from redqueen.records import Author, Member, Problem, Rating
from redqueen.tasks.code.programs import Code
from tests.problems import code_problem


def problem(number: int, author: Author | None = None) -> Problem:
    program = f"def f(x): return x + {number}\n"
    inputs = ("1", "'é\\ud800'")
    return code_problem(program, inputs, ("2", "3"), "code_f", message="add", author=author)


def world(*settings: str) -> World:
    return new_world(0, "run", load_config(None, settings), 0, [problem(1)])


def test_members_are_named_by_role_and_number_and_have_slots_in_order() -> None:
    members = world("population.teachers=2", "population.students=3", "rate.mu=10").members
    assert [(member.id, member.role, member.slot) for member in members] == [
        ("T0", "teacher", 0), ("T1", "teacher", 1), ("S0", "student", 2), ("S1", "student", 3), ("S2", "student", 4),
    ]  # fmt: skip
    assert {member.rating for member in members} == {Rating(10, 25 / 3)}


def test_in_self_play_all_members_have_both_roles_and_without_teachers_all_are_students() -> None:
    no_teachers = ("population.teachers=0", "population.students=2")
    members = world("match.scheme=self_play", *no_teachers).members
    assert [(member.id, member.role) for member in members] == [("B0", "both"), ("B1", "both")]
    assert [member.id for member in world(*no_teachers).members] == ["S0", "S1"]


def test_first_members_may_have_learning_rates_of_their_own() -> None:
    members = world(
        "population.teachers=1", "population.students=2", "population.learning_rates=[1e-3, 2e-3]"
    ).members
    assert [member.learning_rate for member in members] == [1e-3, 2e-3, None]


def test_a_learning_rate_is_the_members_own_or_that_of_its_role() -> None:
    config = ("update.learning_rate=1e-4", "update.teacher_learning_rate=2e-4")
    mine = world("population.learning_rates=[5e-4]", *config)
    rates = {member.id: mine.learning_rate(member) for member in mine.members}
    assert (rates["T0"], rates["T1"], rates["S0"]) == (5e-4, 2e-4, 1e-4)
    without = world(config[0])
    assert {without.learning_rate(member) for member in without.members} == {1e-4}


def test_a_temperature_is_the_members_own_or_that_of_the_stage() -> None:
    mine = world("propose.temperature=0.8", "solve.temperature=1.2")
    assert mine.temperature(mine.by_id("T0"), "teacher") == 0.8
    assert mine.temperature(mine.by_id("S0"), "student") == 1.2
    mine.change("S0", temperature=0.6)
    assert mine.temperature(mine.by_id("S0"), "student") == 0.6


def test_a_childs_name_says_whose_place_it_has_and_when_it_was_born() -> None:
    assert [member_id("teacher", 2, 0), member_id("student", 3, 30), member_id("both", 0, 7)] == [
        "T2",
        "S3.30",
        "B0.7",
    ]


def test_slots_begin_where_the_worlds_do() -> None:
    second = new_world(1, "b", load_config(), 8, [])
    assert [second.slot(member) for member in second.members] == list(range(8, 16))


def test_a_world_comes_back_from_json_as_it_was() -> None:
    first = world("archive.cap=3")
    for number in range(5):
        first.archive.add(problem(number, Author("T1", number) if number % 2 else None))
    first.members[0] = replace(
        first.members[0],
        id="T0.4",
        version=7,
        rating=Rating(1 / 3, 0.1 + 0.2),
        born=4,
        learning_rate=3e-5,
    )
    first.hall_of_fame = [PastMember(replace(first.members[1], id="T1@2", slot=8), 2)]
    first.known, first.cells, first.behaviours = {"b", "a", "é"}, {"x/d1"}, {"0", "1"}
    first.steps_without_problem, first.steps_without_update = 2, 3
    first.stopped, first.rates_rise_from = "stopped after step 9", {"T0.4": 5}
    second = world("archive.cap=3")
    second.restore(json.loads(json.dumps(first.snapshot())))
    assert second == replace(first, archive=second.archive)
    assert list(second.archive) == list(first.archive)
    assert [item.key for item in second.archive] == [item.key for item in first.archive]
    assert second.snapshot() == first.snapshot()
    assert isinstance(second.members[0], Member)
    payload = next(iter(second.archive)).payload
    assert isinstance(payload, Code) and isinstance(payload.inputs, tuple)


def test_a_change_concerns_one_member() -> None:
    changed = world()
    before = list(changed.members)
    changed.change("S1", version=4)
    assert [(member.id, member.version) for member in changed.members] == [
        (member.id, 4 if member.id == "S1" else 0) for member in before
    ]
    assert changed.by_id("S1").version == 4
