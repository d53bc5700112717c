"""Runs on several workers show what each of them does; others show nothing of it."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from redqueen.report.chromium import find_chromium, open_tab
from redqueen.report.gather import gather_runs
from redqueen.report.page import report
from tests.report.synthetic import Synthetic

FIGURES = ("sampled_per_s", "trained_per_s", "busy_s", "fill", "memory_gb", "restarts")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "plain"
    Synthetic(steps=4).write(folder)
    return folder


@pytest.fixture(scope="module")
def spread(plain: Path) -> Path:
    folder = Path(shutil.copytree(plain, plain.with_name("spread")))
    rows = [
        (0, step, f"time/worker/{worker}/{name}", value)
        for step in range(1, 5)
        for worker in range(3)
        for name, value in zip(
            FIGURES, (900.0 + 40 * worker, 500.0, 2 + worker / 2, 0.8, 0.6, step // 2), strict=True
        )
    ]
    with contextlib.closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        connection.executemany(
            "INSERT INTO metrics (world, step, name, value) VALUES (?, ?, ?, ?)", rows
        )
        connection.executemany(
            "INSERT OR REPLACE INTO placements (step, block, first_slot, slots, worker, host, device) "
            "VALUES (?, ?, ?, 4, ?, ?, ?)",
            [
                *((1, block, 4 * block, block, "one", "GPU A") for block in range(3)),
                (3, 2, 8, 0, "two", "GPU B"),
            ],
        )
    return folder


def test_restarts_are_counted_and_the_rest_is_averaged(spread: Path) -> None:
    (view,) = gather_runs([spread])
    assert view["metrics"]["time/worker/2/restarts"][-1] == 2
    assert view["metrics"]["time/worker/1/sampled_per_s"][-1] == 940


def test_every_block_is_listed_with_the_worker_and_device_that_it_has_now(
    plain: Path, spread: Path
) -> None:
    (alone,), (view,) = gather_runs([plain]), gather_runs([spread])
    assert alone["placements"] == []
    assert [(one["block"], one["worker"], one["device"]) for one in view["placements"]] == [
        (0, 0, "GPU A"), (1, 1, "GPU A"), (2, 0, "GPU B"),
    ]  # fmt: skip
    assert [(one["step"], one["moves"]) for one in view["placements"]] == [(1, 0), (1, 0), (3, 1)]


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium in the path")
def test_a_panel_for_each_figure_of_workers_where_there_are_some(
    plain: Path, spread: Path, tmp_path: Path
) -> None:
    panels = []
    with open_tab() as browser:
        browser.resize(1400, 900)
        for folder in (plain, spread):
            page = report(folder, tmp_path / f"{folder.name}.html")
            browser.open(page.as_uri())
            browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
            count = "document.querySelectorAll('#figure-workers svg.chart').length"
            panels.append(browser.evaluate(count))
        table = browser.evaluate("document.querySelector('#figure-placements').textContent")
        assert "GPU B" in table and "round differently" in table
        browser.screenshot(tmp_path / "workers.png", "#figure-workers")
        assert browser.problems == []
    assert panels == [0, len(FIGURES)]
