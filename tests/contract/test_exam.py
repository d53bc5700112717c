"""The common exam ranks students by skill, tests archived problems of all teachers and
difficulties, and trains nobody."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from redqueen.config.toml import load_config
from redqueen.core.archive import Archive
from redqueen.core.state import StepState
from redqueen.core.world import Evidence, Exam, new_world
from redqueen.ledger.run_reader import open_run
from redqueen.records import Attempt, Author, Member
from redqueen.rng import stream
from redqueen.stages.evolve.exam import _conclude, draw_problems
from redqueen.stages.evolve.fitness import TEACHER_FITNESS
from redqueen.stages.evolve.rasch import fit_rasch
from tests.problems import addition
from tests.scripted import TrustingSandbox, chance, play, scripted_run, student, teacher

TEACHERS = [teacher(-1.0, 0.0, 1.0), teacher(1.0, 2.0)]


# the Rasch model


def test_a_fit_finds_skills_and_difficulties() -> None:
    rng = Random(0)
    skills, levels = [-1.5, -0.5, 0.5, 1.5], [(place % 9 - 4) / 2 for place in range(180)]
    correct = [
        [sum(rng.random() < chance(skill, level) for _ in range(4)) for level in levels]
        for skill in skills
    ]
    found, difficulties = fit_rasch(correct, 4)
    assert found == pytest.approx(skills, abs=0.3)
    assert sum(found) == pytest.approx(0)
    easy, hard = (
        [value for value, level in zip(difficulties, levels, strict=True) if level == wanted]
        for wanted in (-2, 2)
    )
    assert max(sum(easy) / len(easy), -1.2) == -1.2 and sum(hard) / len(hard) > 1.2


def test_whoever_solves_all_or_nothing_has_a_finite_skill() -> None:
    (low, mid, high), difficulties = fit_rasch([[0] * 20, [1, 0] * 10, [1] * 20], 1)
    assert -6 < low < mid < high < 6 and all(abs(value) < 6 for value in difficulties)


# which problems


def test_a_problem_that_an_exam_shows_to_be_none_counts_for_nobody_and_leaves_the_archive() -> None:
    problems = [addition(number) for number in range(10)]
    world = new_world(0, "run", load_config(None, ["population.students=2"]), 0, problems)
    state = StepState(world, 3)
    answers = [
        (one.id, Attempt(problem, "", "voided" if place == 4 and one.id == "S1" else "correct"))
        for one in world.students
        for place, problem in enumerate(problems)
    ]
    _conclude(state, problems, answers)
    assert state.exam is not None and len(state.exam.problems) == len(world.archive) == 9
    assert problems[4] not in (*state.exam.problems, *world.archive)


def test_problems_come_from_all_teachers_and_difficulties_and_those_solved_sometimes_first() -> (
    None
):
    archive = Archive(1000)
    for number in range(300):
        problem = addition(number, author=Author("T0" if number < 280 else "T1", 0))
        archive.add(problem)
        archive.solved(problem.key, number % 5 / 4, 1)
    chosen = draw_problems(archive, 60, stream(0, "exam"))
    assert len({problem.key for problem in chosen}) == 60
    rates = Counter(archive.last_solved[problem.key].solve_rate for problem in chosen)
    assert rates[0.5] >= 15 and rates[0.25] + rates[0.0] >= 15 and rates[0.75] + rates[1.0] >= 15
    assert rates[0.0] <= 4 and rates[1.0] <= 4  # T1 has four of each
    assert sum(problem.author == Author("T1", 0) for problem in chosen) == 20
    assert chosen == draw_problems(archive, 60, stream(0, "exam"))
    assert len(draw_problems(archive, 999, stream(0, "exam"))) == 300


# the stage


def test_the_best_student_is_chosen_the_worst_replaced_and_nobody_trained_on_the_exam(
    tmp_path: Path,
) -> None:
    students = [student(skill) for skill in (1.0, -1.5, 1.0, 2.5)]
    settings = ("steps=7", "evolve.every=4", "evolve.share=0.25", "update.learning_rate=0")
    with scripted_run(tmp_path, TrustingSandbox(), TEACHERS * 2, students, settings) as run:
        play(run)
    assert run.worlds[0].chosen == "S3"
    with open_run(tmp_path) as reader:
        assert [row["member"] for row in reader.deaths() if row["member"][0] == "S"] == ["S1"]
        fitness = [row for row in reader.fitness() if row["role"] == "student"]
        assert {row["step"] for row in fitness} == {4, 7}  # and in the last step
        assert {row["measure"] for row in fitness} == {"exam"}
        assert {row["member"] for row in fitness if row["chosen"]} == {"S3"}
        assert {row["measure"] for row in reader.fitness() if row["role"] == "teacher"} == {
            "reward"
        }
        first = [row for row in reader.exams() if row["step"] == 4]
        assert len(first) == 4 * len({row["problem"] for row in first}) > 4 * 30
        # 96 answers are asked for: an archive with fewer problems gets more attempts
        by_problem = {row["problem"]: row["attempts"] for row in first}
        assert 80 <= sum(by_problem.values()) <= 96 + len(by_problem)
        asked = {row["name"]: row["value"] for row in reader.metrics() if row["step"] == 4}
        assert asked["exam/tokens"] > 0 and asked["exam/problems"] == len(by_problem)
        assert len(reader.attempts()) == sum(row["attempts"] for row in reader.pairings())


def test_without_enough_problems_students_are_ranked_by_rating_and_the_run_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ("steps=1", "evolve.every=1", "evolve.share=0.5", "archive.cap=4")
    scripts = [teacher(0.0)] * 2, [student(0.0)] * 2
    with scripted_run(tmp_path, TrustingSandbox(), *scripts, settings) as run:
        play(run)
    (logged,) = [text for text in caplog.messages if "students" in text]
    assert (
        logged == "students are ranked by rating this time: by exam nothing is known yet of S0, S1"
    )
    with open_run(tmp_path) as reader:
        assert not reader.exams()
        measures = {row["role"]: row["measure"] for row in reader.fitness()}
    assert measures == {"teacher": "reward", "student": "rating"}


# teachers


def judged(name: str, evidence: Evidence) -> list[float | None]:
    choice = TEACHER_FITNESS.choose(name)
    members = [Member("T0", "teacher", 0), Member("T1", "teacher", 1)]
    return [TEACHER_FITNESS[name](member, evidence, choice) for member in members]


def test_teachers_are_ranked_by_reward_by_information_or_by_the_progress_of_their_students() -> (
    None
):
    problems = tuple(addition(number, author=Author(f"T{number % 2}", 0)) for number in range(8))
    # T0's problems are solved by the better two students alone, T1's by nobody or by chance
    correct = {
        "S0": (0, 0, 0, 1, 0, 0, 0, 0),
        "S1": (0, 0, 0, 0, 0, 1, 0, 0),
        "S2": (1, 0, 1, 0, 1, 0, 1, 0),
        "S3": (1, 0, 1, 0, 1, 0, 1, 1),
    }
    skills = {"S0": -1.0, "S1": -0.5, "S2": 0.5, "S3": 1.0}
    evidence = Evidence(
        {"T0": (2.0, 8), "T1": (3.0, 8)},
        {"T0": Counter(S0=6, S1=2), "T1": Counter(S2=8)},
        {"S0": -1.0, "S1": -1.5, "S2": 1.0},
        Exam(problems, 1, correct, skills),
    )
    assert judged("reward", evidence) == [0.25, 0.375]
    informs = judged("information", evidence)
    assert informs[0] == 1.0 and informs[1] is not None and informs[1] < 0.2
    assert judged("progress", evidence) == [0.25, -0.5]
    assert judged("progress", Evidence()) == judged("information", Evidence()) == [None, None]
