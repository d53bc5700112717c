"""Specialists: fitness sharing and lexicase keep a student who alone can do something, though it is
weak on the whole. Truncation by the mean kills it."""

from random import Random

from redqueen.core.world import Evidence, Exam
from redqueen.records import Member
from redqueen.stages.evolve.fitness import FITNESS
from redqueen.stages.evolve.select import (
    SELECTIONS,
    Lexicase,
    Standing,
    Truncation,
    lexicase,
    truncation,
)
from tests.problems import addition

GENERALISTS = ("S0", "S1", "S2")
COMMON, RARE = 16, 4


def exam(rng: Random) -> Exam:
    """Three generalists solve 70 % of the common problems; S3 solves 35 % of these, and alone the
    rare ones. Two answers to each problem."""
    correct = {}
    for name in (*GENERALISTS, "S3"):
        chance = 0.35 if name == "S3" else 0.7
        common = [sum(rng.random() < chance for _ in range(2)) for _ in range(COMMON)]
        correct[name] = (*common, *([2 if name == "S3" else 0] * RARE))
    problems = tuple(addition(number) for number in range(COMMON + RARE))
    skills = {name: sum(own) / (2 * len(own)) for name, own in correct.items()}
    return Exam(problems, 2, correct, skills)


def standings(taken: Exam, fitness: str) -> list[Standing]:
    row = FITNESS[fitness]
    return [
        Standing(name, "student", 25, 1, float(value), fitness, cases=taken.correct[name])
        for slot, name in enumerate(taken.correct)
        if (value := row(Member(name, "student", slot), Evidence(exam=taken), None)) is not None
    ]


def deaths(fitness: str, by_cases: bool, rounds: int = 200) -> float:
    """How often the specialist dies."""
    died = 0
    for seed in range(rounds):
        rng = Random(seed)
        members = standings(exam(rng), fitness)
        if by_cases:
            selected = lexicase(members, 1, Lexicase(type="lexicase", draws=100), rng)
        else:
            selected = truncation(members, 1, Truncation(type="truncation"), rng)
        died += selected.dead[0].member == "S3"
    return died / rounds


def test_truncation_by_the_mean_kills_the_specialist_and_sharing_and_lexicase_keep_it() -> None:
    assert deaths("exam", by_cases=False) > 0.6
    assert deaths("shared", by_cases=False) < 0.02
    assert deaths("exam", by_cases=True) < 0.15


def test_shared_points_are_one_on_average_and_all_of_what_one_alone_solves() -> None:
    taken = exam(Random(0))
    values = [standing.fitness for standing in standings(taken, "shared")]
    assert abs(sum(values) / len(values) - 1) < 1e-9
    assert max(values) == values[-1]


def test_members_without_an_exam_are_selected_by_fitness() -> None:
    members = [Standing(f"T{n}", "teacher", 25, 1, float(n)) for n in range(4)]
    selected = SELECTIONS["lexicase"](members, 1, Lexicase(type="lexicase"), Random(0))
    assert [one.member for one in selected.dead] == ["T0"]
    assert all(len(parents) == 2 for parents in selected.parents)


def test_a_clone_shares_its_points_with_its_twin() -> None:
    taken = exam(Random(1))
    twins = Exam(
        taken.problems, 2, {**taken.correct, "S4": taken.correct["S3"]}, dict(taken.skills)
    )
    alone, together = (
        (FITNESS["shared"](Member("S3", "student", 3), Evidence(exam=one), None) or 0.0)
        / len(one.correct)
        for one in (taken, twins)
    )
    assert together < 0.75 * alone


def test_so_many_die_by_cases_and_survivors_are_the_parents() -> None:
    for seed in range(20):
        taken = exam(Random(seed))
        members = standings(taken, "exam")
        for count in range(4):
            settings = Lexicase(type="lexicase", draws=20)
            selected = lexicase(members, count, settings, Random(seed))
            assert len({one.member for one in selected.dead}) == count == len(selected.parents)
            survivors = set(members) - set(selected.dead)
            for parents in selected.parents:
                assert set(parents) <= survivors and len(parents) == min(2, len(survivors))
            assert selected == lexicase(members, count, settings, Random(seed))
