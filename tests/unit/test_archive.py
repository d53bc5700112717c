"""The archive keeps each problem once and lets the oldest go first."""

from collections import Counter
from dataclasses import replace

from redqueen.core.archive import Archive
from redqueen.records import Problem
from redqueen.rng import stream
from redqueen.sandbox.inspection.complexity import Complexity


def problem(number: int, kind: str = "code_o") -> Problem:
    return Problem(
        kind,
        f"def f(): return {number}\n",
        ("",),
        (str(number),),
        f"def f():\n    return {number}",
        Complexity(3, 1, 1, 0),
        1,
    )


def test_the_oldest_leaves_first() -> None:
    archive = Archive(3, [problem(number) for number in range(5)])
    assert [item.outputs for item in archive] == [("2",), ("3",), ("4",)]


def test_a_problem_is_kept_once() -> None:
    archive = Archive(3)
    assert archive.add(problem(1))
    assert not archive.add(problem(1))
    assert archive.add(problem(1, kind="code_i"))
    assert len(archive) == 2
    assert problem(1).key in archive


def test_samples_are_different_problems_and_repeat_with_their_stream() -> None:
    archive = Archive(10, [problem(number) for number in range(8)])
    drawn = [archive.sample(5, stream(0, "draw")) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len({item.key for item in drawn[0]}) == 5
    assert len(archive.sample(20, stream(0, "draw"))) == 8


def test_rare_structures_are_shown_more_when_that_is_asked_for() -> None:
    rare = replace(problem(99), complexity=Complexity(30, 9, 20, 8))
    archive = Archive(100, [*(problem(number) for number in range(24)), rare])
    draw = stream(0, "rare")
    found = {
        rarity: Counter(archive.sample(1, draw, rarity=rarity)[0] is rare for _ in range(400))[True]
        for rarity in (0.0, 1.0)
    }
    assert found[0.0] < 40  # one in 25
    assert 150 < found[1.0] < 250  # one cell of two
    assert len({item.key for item in archive.sample(5, draw, rarity=1.0)}) == 5
