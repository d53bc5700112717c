"""The archive keeps each problem once and lets the oldest go first."""

from collections import Counter

from redqueen.core.archive import Archive
from redqueen.rng import stream
from tests.problems import addition, code_problem


def test_the_oldest_leaves_first() -> None:
    archive = Archive(3, [addition(number) for number in range(5)])
    assert [problem.gold for problem in archive] == [("3",), ("4",), ("5",)]


def test_a_problem_is_kept_once() -> None:
    archive = Archive(3)
    assert archive.add(addition(1))
    assert not archive.add(addition(1))
    assert archive.add(addition(1, kind="code_i"))
    assert len(archive) == 2
    assert addition(1).key in archive


def test_samples_are_different_problems_and_repeat_with_their_stream() -> None:
    archive = Archive(10, [addition(number) for number in range(8)])
    samples = [archive.sample(5, stream(0, "sample")) for _ in range(2)]
    assert samples[0] == samples[1]
    assert len({problem.key for problem in samples[0]}) == 5
    assert len(archive.sample(20, stream(0, "sample"))) == 8


def test_samples_are_of_the_kinds_that_are_asked_for() -> None:
    archive = Archive(10, [addition(1), addition(2, "code_i"), addition(3, "code_f")])
    kinds = {problem.kind for problem in archive.sample(9, stream(0, "sample"), ("code_i", "x"))}
    assert kinds == {"code_i"}
    assert archive.sample(9, stream(0, "sample"), ()) == []


def test_rare_structures_are_shown_more_when_that_is_asked_for() -> None:
    branches = "".join(f"    if x == {number}:\n        x += {number}\n" for number in range(8))
    rare = code_problem(f"def f(x):\n{branches}    return x\n")
    archive = Archive(100, [*(addition(number) for number in range(24)), rare])
    rng = stream(0, "rare")
    shown = {
        rarity: Counter(archive.sample(1, rng, rarity=rarity)[0] is rare for _ in range(400))[True]
        for rarity in (0.0, 1.0)
    }
    assert shown[0.0] < 40  # one in 25
    assert 150 < shown[1.0] < 250  # one cell of two
    assert len({problem.key for problem in archive.sample(5, rng, rarity=1.0)}) == 5
