"""Runs on worker processes, ended while these are busy."""

import signal
import time
from pathlib import Path

import pytest

from redqueen.cli.bench.sandbox import find_descendants
from tests.e2e.processes import start, tiny

pytestmark = pytest.mark.slow


def test_ctrl_c_while_workers_are_busy_leaves_no_process_and_no_traceback(tmp_path: Path) -> None:
    settings = ("engine.type=processes", "engine.workers=2", "engine.block=2", "steps=50")
    command = start(tmp_path / "log", *tiny(tmp_path / "run", *settings)).until(r" 1/50 ")
    family = find_descendants(command.process.pid)
    assert len(family) > 2
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        command.signal(number)
    command.wait(143)  # which looks for tracebacks, too; SIGTERM is handled second
    assert "Go on with: redqueen resume" in command.err and "died" not in command.err
    until_ended(family)


def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    settings = ("engine.type=processes", "engine.workers=1", "steps=50")
    command = start(tmp_path / "log", *tiny(tmp_path / "run", *settings)).until(r" 1/50 ")
    family = find_descendants(command.process.pid)
    command.signal(signal.SIGKILL)
    command.process.join()
    until_ended(family)


def until_ended(family: list[int]) -> None:
    end = time.monotonic() + 20
    while left := [pid for pid in family if is_alive(pid)]:
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
