"""What the report shows of games, and that hostile turns stay text."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from redqueen.report.chromium import find_chromium, open_tab
from redqueen.report.gather import gather_runs
from redqueen.report.page import report
from redqueen.tasks.prompts.compact import write_blocks
from tests.science.test_games import (
    adviser,
    honest,
    judge,
    repairer,
    solver,
)
from tests.scripted import Script, TrustingSandbox, play, player, scripted_run, student, teacher

HOSTILE = (
    "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
)
ALL = "games={race=0.1, critique=0.3, repair=0.3, debate=0.3}"


def hostile_debater(prompt: str, rng: Random) -> str:
    return write_blocks([("argument", HOSTILE)])


def member(skill: float, speaks: Script) -> Script:
    return player(
        student=solver,
        critic=honest(skill),
        adviser=adviser(skill),
        repairer=repairer(1.0),
        debater=speaks,
        judge=judge(skill),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "games"
    students = [member(1.0, hostile_debater)] * 3
    settings = [ALL, "steps=6", "evolve.exam.problems=0", "propose.samples=4"]
    with scripted_run(folder, TrustingSandbox(), [teacher(0.0)] * 2, students, settings) as playing:
        play(playing)
    return folder


def games(folder: Path) -> Any:
    (view,) = gather_runs([folder])
    return view["games"]


def test_verdicts_gains_ratings_and_one_game_of_each_are_shown(run: Path) -> None:
    figures = games(run)
    assert [(one["game"], one["role"], one["last"][0]) for one in figures["accuracy"]] == [
        ("critique", "critic", 1),
        ("debate", "judge", 1),
        ("repair", "adviser", 1),
    ]
    for one in figures["accuracy"]:
        assert one["last"][1] < one["last"][0]
        assert one["role"] == "judge" or one["same"] == 0.5
    (gain,) = figures["gains"]
    assert (gain["game"], gain["role"]) == ("repair", "repairer")
    assert {value for value in gain["line"] if value is not None} == {0.5}  # half was correct
    roles = {one["role"] for one in figures["ratings"]}
    assert roles == {"critic", "adviser", "repairer", "debater", "judge"}
    assert [one["game"] for one in figures["examples"]] == ["critique", "debate", "repair"]
    for example in figures["examples"]:
        shown = {name for turn in example["turns"] for name in turn["shown"]}
        assert {one["name"] for one in example["attempts"]} <= shown
        assert len({one["verdict"] for one in example["attempts"]}) == 2
        assert example["blocks"][0][0] == "program"


def test_a_run_without_games_has_no_section_of_them(tmp_path: Path) -> None:
    settings = ["steps=1", "evolve.exam.problems=0"]
    with scripted_run(
        tmp_path / "run", TrustingSandbox(), [teacher(0.0)], [student(0.0)], settings
    ) as playing:
        play(playing)
    assert games(tmp_path / "run") is None


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium in the path")
def test_hostile_turns_stay_text_in_a_browser(run: Path, tmp_path: Path) -> None:
    page = report(run, tmp_path / "report.html")
    with open_tab() as tab:
        tab.open(page.as_uri())
        tab.wait_for("document.querySelectorAll('#games svg.chart').length > 5")
        assert tab.problems == []
        assert tab.evaluate("document.title") == "Red Queen: games"
        assert tab.evaluate("document.querySelectorAll('#games figure').length") == 5
        assert tab.evaluate("document.querySelectorAll('#games details.game').length") == 3
        texts = tab.evaluate("document.querySelector('#games .transcripts').textContent")
        assert HOSTILE in texts
        assert tab.evaluate("document.querySelectorAll('#games img, #games script').length") == 0
