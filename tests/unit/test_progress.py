"""The lines that a run prints, one for each step, and tables."""

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from redqueen.cli import progress
from redqueen.cli.console import print_table
from redqueen.cli.progress import StepProgress, seconds_left


def test_the_time_left_is_that_of_the_mean_step() -> None:
    assert seconds_left([100.0, 104.0, 110.0], 3) == 15.0
    assert seconds_left([100.0, 104.0], 0) == 0.0


def test_a_slow_first_step_is_soon_left_out_of_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    config = SimpleNamespace(steps=20, is_rated=False)
    run: Any = SimpleNamespace(step=0, config=config)
    lines = StepProgress(run)
    for length in (100.0, *[10.0] * 8):
        now += length
        run.step += 1
        world = SimpleNamespace(config=config, members=[])
        state: Any = SimpleNamespace(step=run.step, world=world, metrics={})
        lines.step([state], length)
    left = re.findall(r"(\d+:\d\d)$", capsys.readouterr().err, re.MULTILINE)
    assert left[0] == "31:40"  # 19 steps like the first
    assert left[7] == "4:15"  # 12 steps like the first and seven of 10 s
    assert left[8] == "1:50"  # 11 steps of 10 s


def test_a_table_in_a_pipe_is_as_wide_as_it_has_to_be() -> None:
    table = Table("arm", "score")
    table.add_row("4t4s-frozen-teachers " * 5, "40.0 (35.0-45.0)")
    out = io.StringIO()
    print_table(table, Console(file=out, width=40))
    assert "4t4s-frozen-teachers " * 5 in out.getvalue() and "…" not in out.getvalue()
    narrow = io.StringIO()
    print_table(table, Console(file=narrow, width=40, force_terminal=True, color_system=None))
    assert "…" not in narrow.getvalue()
    assert max(map(len, narrow.getvalue().splitlines())) <= 40
