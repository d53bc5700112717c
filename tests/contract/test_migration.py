"""Worlds exchange members: the fittest student of one takes the place of the least fit of the next,
in the ledger as a birth, and the same after a resume."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from redqueen.config.study import load_study
from redqueen.ledger.store import digest
from tests.scripted import (
    CountingEngine,
    ScriptedArm,
    TrustingSandbox,
    play,
    scripted_worlds,
    student,
    teacher,
)

SETTINGS = ("steps=6", "evolve.migrate_every=2", "evolve.every=4", "evolve.exam.problems=8")


def arms() -> list[ScriptedArm]:
    students = [student(skill) for skill in (-1.0, 0.0, 1.0)]
    return [
        ScriptedArm(name, [teacher(0.0)] * 2, students, (*SETTINGS, f"seed={seed}"))
        for seed, name in enumerate(("a", "b", "c"))
    ]


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        return connection.execute(query).fetchall()


def test_a_student_of_every_world_goes_to_the_next(tmp_path: Path) -> None:
    with scripted_worlds(tmp_path, TrustingSandbox(), arms()) as run:
        play(run)
    births = rows(
        tmp_path,
        "SELECT world, step, member, parents FROM births WHERE operator = 'migration' "
        "ORDER BY step, world",
    )
    assert {step for _, step, _, _ in births} == {2, 4, 6}
    for world, step, member, parents in births:
        (origin,) = json.loads(parents)
        assert int(origin.partition("/")[0]) == (world - 1) % 3
        assert member.startswith("S") and member.endswith(f".{step}")
    deaths = rows(tmp_path, "SELECT count(*) FROM deaths WHERE reason LIKE 'migration: %'")
    assert deaths == [(len(births),)]


def test_a_copy_has_the_weights_of_the_fittest_and_a_resume_gives_the_same(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with scripted_worlds(whole, TrustingSandbox(), arms()) as run:
        play(run, 2)
        for number, world in enumerate(run.worlds):
            (born,) = (member for member in world.members if member.born == 2)
            source = run.worlds[number - 1]
            assert isinstance(run.engine, CountingEngine)
            weights = run.engine.weights
            copied = pytest.approx(weights[world.slot(born)], rel=1e-6)
            assert any(weights[source.slot(member)] == copied for member in source.students)
        play(run)
    for until in (2, 3, None):
        with scripted_worlds(parts, TrustingSandbox(), arms()) as run:
            play(run, until)
    assert digest(whole) == digest(parts)


def test_one_world_alone_keeps_its_members(tmp_path: Path) -> None:
    with scripted_worlds(tmp_path, TrustingSandbox(), arms()[:1]) as run:
        play(run)
    assert rows(tmp_path, "SELECT count(*) FROM births WHERE operator = 'migration'") == [(0,)]


def test_a_study_says_how_often(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("migration = 5\nseeds = [0, 1]\n[arms.a]\nsteps = 20\n")
    assert [config.evolve.migrate_every for _, config in load_study(path, [])] == [5, 5]
