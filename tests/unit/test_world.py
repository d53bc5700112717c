"""A world begins as its settings say, and what is restored from JSON is the world that was."""

import json
from dataclasses import replace

from redqueen.config.toml import load_config
from redqueen.core.world import World, member_id, new_world
from redqueen.records import Author, Member, Problem, Rating
from redqueen.sandbox.inspection.complexity import Complexity


def problem(number: int, author: Author | None = None) -> Problem:
    text = f"def f(x): return x + {number}\n"
    return Problem(
        "code_f",
        text,
        ("1", "'é\\ud800'"),
        ("2", "3"),
        text.strip(),
        Complexity(3, 1, 1, 1),
        7,
        "add",
        author,
    )


def world(*settings: str) -> World:
    return new_world(0, "run", load_config(None, settings), 0, [problem(1)])


def test_members_are_named_by_role_and_number_and_have_slots_in_order() -> None:
    members = world("population.teachers=2", "population.students=3", "match.rating.mu=10").members
    assert [(one.id, one.role, one.slot) for one in members] == [
        ("T0", "teacher", 0), ("T1", "teacher", 1), ("S0", "student", 2), ("S1", "student", 3), ("S2", "student", 4),
    ]  # fmt: skip
    assert {one.rating for one in members} == {Rating(10, 25 / 3)}


def test_in_self_play_all_members_have_both_roles_and_without_teachers_all_are_students() -> None:
    assert [
        (one.id, one.role)
        for one in world(
            "match.scheme=self_play", "population.teachers=0", "population.students=2"
        ).members
    ] == [
        ("B0", "both"),
        ("B1", "both"),
    ]
    assert [one.id for one in world("population.teachers=0", "population.students=2").members] == [
        "S0",
        "S1",
    ]


def test_first_members_may_have_learning_rates_of_their_own() -> None:
    members = world(
        "population.teachers=1", "population.students=2", "population.learning_rates=[1e-3, 2e-3]"
    ).members
    assert [one.learning_rate for one in members] == [1e-3, 2e-3, None]


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
    first.known, first.cells, first.behaviours = {"b", "a", "é"}, {"x/d1"}, {"0", "1"}
    first.steps_without_problem, first.steps_without_update = 2, 3
    second = world("archive.cap=3")
    second.restore(json.loads(json.dumps(first.snapshot())))
    assert second == replace(first, archive=second.archive)
    assert list(second.archive) == list(first.archive)
    assert [item.key for item in second.archive] == [item.key for item in first.archive]
    assert second.snapshot() == first.snapshot()
    assert isinstance(second.members[0], Member) and isinstance(
        next(iter(second.archive)).inputs, tuple
    )


def test_a_change_concerns_one_member() -> None:
    one = world()
    before = list(one.members)
    one.change("S1", version=4)
    assert [(member.id, member.version) for member in one.members] == [
        (member.id, 4 if member.id == "S1" else 0) for member in before
    ]
    assert one.by_id("S1").version == 4
