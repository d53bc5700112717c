"""The report says whether the race is engaged, and whether selection follows skill."""

from pathlib import Path

import pytest

from redqueen.report.engagement import Race, measure_race
from redqueen.report.gather import gather_runs
from redqueen.report.run_view import open_views
from redqueen.report.selection import rank_correlation
from tests.report.synthetic import Synthetic
from tests.scripted import TrustingSandbox, play, scripted_run, student, teacher


def correlation(rows: list[dict[str, float]]) -> tuple[float, int] | None:
    found = rank_correlation(rows, "fitness", "exam")
    return found and (round(found[0], 9), found[1])


def test_a_rank_correlation_is_taken_within_rankings() -> None:
    """Later rankings have higher values throughout, which says nothing about who is the better."""
    rows = [
        {"step": step, "fitness": 10 * step + place, "exam": 10.0 * step - place}
        for step in (1, 2)
        for place in range(4)
    ]
    assert correlation(rows) == (-1.0, 2)
    assert correlation(rows[:2]) is None  # of two students
    tied = [{"step": 1, "fitness": value, "exam": value} for value in (1.0, 1.0, 2.0)]
    assert correlation(tied) == (1.0, 1)
    alike = [{"step": 1, "fitness": 1.0, "exam": value} for value in (1.0, 2.0, 3.0)]
    assert correlation(alike) is None


def test_fitness_is_shown_beside_exam_and_rating(tmp_path: Path) -> None:
    Synthetic(steps=12).write(tmp_path / "run")
    (figures,) = gather_runs([tmp_path / "run"])
    points = figures["selection"]["points"]
    assert len(points) == 3 * 4
    assert all(point["exam"] is not None and point["rating"] is not None for point in points)
    names = {one["name"] for one in figures["selection"]["correlations"]}
    # by the exam itself there is nothing to compare with the exam
    assert "rating, exam" in names and "fitness, exam" not in names
    # how a rating goes with the exam is a figure: nobody is selected by it
    assert not any("orrelation" in finding["text"] for finding in figures["findings"])


@pytest.mark.parametrize(("levels", "engaged"), [((-0.5, 0.0, 0.5), True), ((-99.0, 99.0), False)])
def test_a_report_says_whether_the_race_is_engaged(
    tmp_path: Path, levels: tuple[float, ...], engaged: bool
) -> None:
    settings = ("steps=8", "propose.samples=8", "stop.steps_without_update=99")
    scripts = [teacher(*levels)] * 2, [student(0.0)] * 2
    with scripted_run(tmp_path, TrustingSandbox(), *scripts, settings) as run:
        play(run)
    (figures,) = gather_runs([tmp_path])
    (said,) = [text for text in (one["text"] for one in figures["findings"]) if "The race " in text]
    assert said.startswith("The race is engaged: in the last" if engaged else "The race disengages")
    assert (figures["race"]["solved_sometimes"] > 0.7) == engaged
    if not engaged:
        assert figures["race"]["zero_pass"] + figures["race"]["all_pass"] == pytest.approx(1)


def test_the_pull_of_the_reward_is_its_slope_against_the_solve_rate(tmp_path: Path) -> None:
    """By the paper's reward easy problems earn less; with a price on unsolved ones, hard ones do."""
    slopes = {}
    for name, levels, unsolved in (("easy", (-2.0, 0.0), 0.0), ("hard", (1.0, 4.0), -1.0)):
        settings = ("steps=12", "propose.samples=8", f"reward.teacher.zero_pass={unsolved}")
        teachers = [teacher(level) for level in levels]
        with scripted_run(
            tmp_path / name, TrustingSandbox(), teachers, [student(0.0)] * 2, settings
        ) as run:
            play(run)
        with open_views([tmp_path / name]) as (view,):
            race = measure_race(view)
        assert race is not None and race.slope is not None
        assert race.slope[1] < race.slope[0] < race.slope[2]
        slopes[name] = race
    assert slopes["easy"].slope[2] < 0 < slopes["hard"].slope[1]  # type: ignore[index]
    assert "rewards favour harder problems" in slopes["easy"].sentence
    assert "rewards favour easier problems" in slopes["hard"].sentence


def test_a_race_disengages_by_more_than_chance() -> None:
    few, many = (Race(0.4, 0.3, 0.3, problems, None) for problems in (20, 200))
    assert not few.is_disengaged and many.is_disengaged
    assert not Race(0.5, 0.25, 0.25, 10_000, None).is_disengaged
