"""The first screen of a report answers what a reader asks first, and claims no more than was
measured."""

from typing import Any

import pytest

from redqueen.evaluate.replies import FORCED, SOUP
from redqueen.report.findings import Answer, list_answers, next_steps
from redqueen.report.gather import gather_runs
from tests.report.synthetic import Synthetic
from tests.report.test_report import figures

LEARNED, ENGAGED, HARDER, POPULATION = (
    "Did the students get better?",
    "Was there something to learn?",
    "Did the problems get harder?",
    "Did the population win anything?",
)
TWO = [{"role": "student", "died": None, "born": 0}] * 2


def answers(**changes: Any) -> dict[str, Answer]:
    return {one.question: one for one in list_answers(figures(**changes))}


def suite(name: str, gain: list[float], **products: list[float]) -> dict[str, Any]:
    shown = [{"subject": subject, "gain": own} for subject, own in products.items()]
    return {"suite": name, "students": {"gain": gain}, "products": shown}


@pytest.mark.parametrize(
    ("gain", "answer", "level"),
    [
        ([0.082, 0.054, 0.111], "By 8.2 points", "good"),
        ([0.01, -0.02, 0.04], "Not shown", "open"),
        ([-0.05, -0.08, -0.02], "No, worse", "bad"),
    ],
)
def test_students_got_better_only_where_the_interval_is_clear_of_zero(
    gain: list[float], answer: str, level: str
) -> None:
    found = answers(suites=[suite("heldout", gain)])[LEARNED]
    assert (found.answer, found.level) == (answer, level)
    assert f"{100 * gain[0]:+.1f} points over the base" in found.note


def test_what_was_not_measured_is_not_answered() -> None:
    found = answers()
    assert (found[LEARNED].answer, found[LEARNED].level) == ("Not measured", "open")
    assert "at its end" in answers(active=True)[LEARNED].note


def test_the_suite_that_the_run_names_and_the_soup_come_first() -> None:
    suites = [suite("a", [0.5, 0.4, 0.6]), suite("b", [0.2, 0.1, 0.3], **{SOUP: [0.3, 0.2, 0.4]})]
    found = answers(suites=suites, settings={"evaluate.suite": ['"b"', ""]})[LEARNED]
    assert found.note.startswith("The soup on b: +30.0 points")


def test_a_gain_that_a_prompt_would_have_given_is_not_called_good() -> None:
    suites = [suite("h", [0.08, 0.05, 0.11], **{FORCED: [0.09, 0.06, 0.12]})]
    found = answers(suites=suites)[LEARNED]
    assert found.level == "open" and "gains +9.0 if it is made to reason first" in found.note


@pytest.mark.parametrize(
    ("sometimes", "disengaged", "answer"),
    [(0.6, False, "Yes"), (0.4, False, "Some"), (0.2, True, "Little")],
)
def test_there_is_something_to_learn_where_problems_are_solved_sometimes(
    sometimes: float, disengaged: bool, answer: str
) -> None:
    race = {"solved_sometimes": sometimes, "zero_pass": 0.1, "all_pass": 0.3}
    found = answers(race={**race, "disengaged": disengaged, "sentence": ""})
    assert found[ENGAGED].answer == answer and "10 % never, 30 % always" in found[ENGAGED].note


def test_a_run_that_has_just_begun_is_not_judged() -> None:
    race = {"solved_sometimes": 0.6, "zero_pass": 0.1, "all_pass": 0.3, "disengaged": False}
    assert answers(steps_done=3, race=race)[ENGAGED].answer == "Too early to tell"
    assert answers(steps_done=0, active=True)[ENGAGED].answer == "Too early to tell"
    assert (answers()[ENGAGED].answer, answers()[ENGAGED].level) == ("No", "bad")


@pytest.mark.parametrize(
    ("growth", "solved", "answer"),
    [
        (1.3, 0.65, "Yes, and students kept up"),
        (1.3, 0.45, "Yes, and students kept up"),
        (1.3, 0.3, "Yes; students fell behind"),
        (1.0, 0.7, "No"),
        (0.8, 0.7, "No, easier"),
    ],
)
def test_harder_problems_count_for_more_if_students_keep_up(
    growth: float, solved: float, answer: str
) -> None:
    index, rates = [1.0] * 10 + [growth] * 10, [0.7] * 10 + [solved] * 10
    found = answers(complexity_index=index, metrics={"solve/pass_rate": rates})
    assert found[HARDER].answer == answer


def test_a_single_run_never_says_that_a_population_won() -> None:
    merged = {**suite("h", [0.2, 0.1, 0.3], **{SOUP: [0.3, 0.2, 0.4]}), "soup_over_mean": [0.1, 0.05, 0.15]}  # fmt: skip
    found = answers(members=TWO, suites=[merged])[POPULATION]
    assert (found.answer, found.level) == ("Not tested here", "open")
    assert "The soup is +10.0 points [+5.0, +15.0] from its mean student" in found.note
    assert answers(members=TWO[:1])[POPULATION].answer == "There is none"


def test_a_race_without_teachers_is_not_asked_about_them() -> None:
    assert set(answers(has_teachers=False)) == {LEARNED, POPULATION}


def test_what_to_do_next_follows_from_what_is_missing() -> None:
    def commands(**changes: Any) -> list[str]:
        return [command for command, _ in next_steps(figures(**changes))]

    assert commands(active=True) == ["redqueen watch RUN"]
    assert "redqueen resume RUN" in commands(steps_done=10, ended="")
    code = {"kinds": ["code_o"], "cells": []}
    assert "redqueen eval RUN --suite heldout-quick" in commands(students_by_kind=code)
    unclear = {"suites": [suite("h", [0.01, -0.02, 0.04])], "students_by_kind": code}
    assert "redqueen eval RUN --suite heldout" in commands(**unclear)
    assert not any("eval" in one for one in commands(suites=[suite("h", [0.2, 0.1, 0.3])]))


def test_the_answers_of_a_run_are_on_its_page(tmp_path: Any) -> None:
    Synthetic(steps=12).write(tmp_path / "run")
    (view,) = gather_runs([tmp_path / "run"])
    assert [one["question"] for one in view["answers"]] == [LEARNED, ENGAGED, HARDER, POPULATION]
    assert view["next_steps"]
