"""Scripted teachers and students of known skill: ratings find their order, matching looks for open
games, teachers earn for the hardest solvable."""

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from redqueen.core.run import Run
from redqueen.ledger.store import open_to_read
from redqueen.records import Rating
from tests.scripted import Script, TrustingSandbox, chance, play, scripted_run, student, teacher

pytestmark = pytest.mark.slow


def played(
    folder: Path,
    teachers: Sequence[Script],
    students: Sequence[Script],
    *settings: str,
    ratings: Sequence[float] = (),
) -> Run:
    """A run to its end; with ratings, known beforehand and for sure."""
    with scripted_run(
        folder / "run",
        TrustingSandbox(),
        teachers,
        students,
        ["ledger.checkpoint_every=1000", *settings],
    ) as run:
        for member, mu in zip(list(run.worlds[0].members), ratings, strict=False):
            run.worlds[0].change(member.id, rating=Rating(mu, 0.01))
        play(run)
    return run


def skills(run: Run) -> dict[str, float]:
    return {member.id: member.rating.mu for member in run.worlds[0].members}


def rows(run: Run, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(open_to_read(run.ledger.folder)) as connection:
        return [tuple(row) for row in connection.execute(query)]


def by_level(run: Run, column: str) -> dict[float, float]:
    """The mean of a column of proposals, by the level of their problems."""
    values: dict[float, list[float]] = defaultdict(list)
    for program, value in rows(
        run,
        f"SELECT json_extract(q.payload, '$.program'), p.{column} FROM proposals p JOIN problems q ON q.problem = p.problem",
    ):
        values[float(str(program).partition("level = ")[2].split()[0])].append(value)
    return {level: sum(own) / len(own) for level, own in values.items()}


@pytest.mark.parametrize("seed", [0, 1])
def test_ratings_order_students_by_skill_and_teachers_by_how_hard_their_problems_are(
    tmp_path: Path, seed: int
) -> None:
    teachers = [teacher(level) for level in (-1.0, 0.0, 1.0, 2.0)]
    students = [student(skill) for skill in (4.0, 2.7, 1.3, 0.0)]
    mu = skills(
        played(tmp_path, teachers, students, "steps=80", f"seed={seed}", "match.scheme=round_robin")
    )
    assert mu["T0"] < mu["T1"] < mu["T2"] < mu["T3"]
    assert mu["S0"] > mu["S1"] > mu["S2"] > mu["S3"]


def test_equal_members_stay_about_equal(tmp_path: Path) -> None:
    mu = skills(played(tmp_path, [teacher(0.0)] * 3, [student(0.5)] * 3, "steps=60"))
    assert (
        max(mu[f"S{number}"] for number in range(3)) - min(mu[f"S{number}"] for number in range(3))
        < 4
    )


def test_problems_that_nobody_can_solve_win_by_the_papers_rule_only(tmp_path: Path) -> None:
    scripts = [teacher(1.0), teacher(99.0)], [student(1.0), student(1.0)]
    fair = skills(played(tmp_path / "fair", *scripts, "steps=20"))
    paper = skills(played(tmp_path / "paper", *scripts, "steps=20", "rate.outcome=paper"))
    assert fair["T1"] < fair["T0"]
    assert paper["T1"] > paper["T0"]


def test_a_teacher_that_writes_nonsense_loses_its_games(tmp_path: Path) -> None:
    mu = skills(
        played(
            tmp_path,
            [teacher(1.0), teacher(1.0, valid=0.2)],
            [student(1.0), student(1.0)],
            "steps=40",
        )
    )
    assert mu["T1"] < mu["T0"] - 2


def test_pfsp_plays_open_games_and_uniform_plays_any(tmp_path: Path) -> None:
    """Ratings that are known for sure: T0 and S0 are as good as each other, and T1 and S1."""
    open_frac = {}
    for scheme in ("pfsp", "uniform"):
        settings = ("steps=60", f"match.scheme={scheme}", "rate.tau=0", "propose.samples=1")
        run = played(
            tmp_path / scheme,
            [teacher(0.0)] * 2,
            [student(0.0)] * 2,
            *settings,
            ratings=(20, 30, 20, 30),
        )
        pairings = rows(run, "SELECT expected FROM pairings")
        open_frac[scheme] = sum(0.4 < p < 0.6 for (p,) in pairings) / len(pairings)
    assert open_frac["pfsp"] > 0.8 > 0.65 > open_frac["uniform"] > 0.35


def test_the_hardest_solvable_problems_earn_most(tmp_path: Path) -> None:
    """With K attempts of chance p each, 1 - s where s > 0 is (1 - p) - (1 - p)^K on average:
    largest at p = 0.26 for K = 8."""
    levels = (-9, -1.0, 0.0, 1.0, 2.0, 3.5, 30)
    run = played(
        tmp_path,
        [teacher(*levels)],
        [student(0.0)],
        "steps=3",
        "propose.samples=200",
        "solve.attempts=8",
    )
    means = by_level(run, "reward")
    for level, mean in means.items():
        p = chance(0.0, level)
        assert mean == pytest.approx((1 - p) - (1 - p) ** 8, abs=0.1)
    assert max(means, key=lambda level: means[level]) == 1.0  # p = 0.27
    assert means[30] == 0.0 and means[-9] < 0.02


def test_advantages_favour_the_hardest_solvable_problem_of_a_prompt_and_the_correct_answers(
    tmp_path: Path,
) -> None:
    run = played(
        tmp_path,
        [teacher(-2.0, 1.0, 30.0)],
        [student(0.0)],
        "steps=30",
        "solve.attempts=8",
        "propose.samples=8",
    )
    mean = by_level(run, "advantage")
    assert mean[1.0] > 0.5 > 0 > max(mean[-2.0], mean[30.0])
    ((correct, wrong),) = rows(
        run,
        "SELECT avg(CASE WHEN verdict = 'correct' THEN advantage END), avg(CASE WHEN verdict = 'wrong' THEN advantage END) FROM attempts",
    )
    assert correct > 0 > wrong


def test_a_problem_that_was_proposed_before_is_a_duplicate_and_not_attempted_again(
    tmp_path: Path,
) -> None:
    def teacher_of_one(prompt: str, rng: Random) -> str:
        return ">>program\ndef f(x):\n    level = 0\n    return x + 5\n>>input\n3\n>>end"

    run = played(tmp_path, [teacher_of_one], [student(2.0)], "steps=2")
    assert rows(run, "SELECT rejection, count(*) FROM proposals GROUP BY rejection") == [
        (None, 1),
        ("duplicate", 7),
    ]
    assert rows(run, "SELECT DISTINCT reward FROM proposals WHERE rejection IS NOT NULL") == [
        (-0.5,)
    ]
    assert rows(run, "SELECT count(*) FROM problems") == [(1,)]
    assert rows(run, "SELECT count(*) FROM attempts") == [(4,)]
