"""Figures for papers, and what the page says about how a run was made."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from redqueen.errors import ConfigError, RedQueenError
from redqueen.report.compare import compare_runs
from redqueen.report.compare_text import to_markdown
from redqueen.report.gather import gather_runs
from redqueen.report.plots import FIGURES, plot
from tests.report.synthetic import Synthetic

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "quick"
    Synthetic(settings={"update": {"kl": 0.5}}).write(folder)
    return folder


@pytest.mark.parametrize("figure", sorted(FIGURES))
def test_a_figure_is_drawn_as_the_name_of_its_file_says(
    figure: str, run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    for end, begin in ((".pdf", b"%PDF"), (".svg", b"<?xml"), (".png", b"\x89PNG")):
        assert plot(run, figure, tmp_path / f"a{end}").read_bytes().startswith(begin)


def test_scores_of_a_run_that_measured_its_soup_alone_are_drawn(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    shutil.copytree(run, tmp_path / "soup")
    with contextlib.closing(sqlite3.connect(tmp_path / "soup/run.sqlite")) as connection:
        connection.execute("DELETE FROM evals WHERE subject NOT LIKE 'S0%' AND subject <> 'base'")
        connection.execute("UPDATE evals SET subject = 'soup' WHERE subject <> 'base'")
        connection.commit()
    text = plot(tmp_path / "soup", "scores", tmp_path / "a.svg").read_text()
    assert "heldout-quick: soup" in text and "S0" not in text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_figure_on_a_full_disk_says_so(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    (tmp_path / "a.pdf").symlink_to("/dev/full")
    with pytest.raises(RedQueenError, match="No space left on device"):
        plot(run, "race", tmp_path / "a.pdf")


def test_a_figure_that_cannot_be_drawn_says_why(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown figure 'rcae'. Did you mean 'race'"):
        plot(run, "rcae", tmp_path / "a.pdf")
    with pytest.raises(ConfigError, match=r"the name ends in one of .pdf, .svg, .png"):
        plot(run, "race", tmp_path / "a.doc")


def test_the_page_has_the_settings_the_digest_and_the_recipe(run: Path) -> None:
    (view,) = gather_runs([run])
    assert view["settings"]["update.kl"] == ["0.5", "0.0"]
    assert len(view["digest"]) == 64 and view["recipe"].startswith("seed = 0")


def test_arms_are_told_apart_by_their_settings_and_a_single_seed_is_not_marked_as_tested(
    run: Path, tmp_path: Path
) -> None:
    Synthetic(seed=1, settings={"update": {"kl": 0.25}}).write(tmp_path / "other")
    comparison = compare_runs([("one", run), ("two", tmp_path / "other")])
    assert comparison["settings"] == {"update.kl": {"one": "0.5", "two": "0.25"}}
    text = to_markdown(comparison)
    assert "| update.kl | 0.5 | 0.25 |" in text
    assert not any(line.endswith("† |") for line in text.splitlines())
