"""Full and read-only disks, lost GPUs, signals, killed processes of the sandbox: every command ends
with a line that says what happened, nothing that was whole is lost, and there is a way on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.cli.bench.sandbox import find_descendants
from redqueen.ledger.store import digest
from tests.e2e import faults
from tests.e2e.processes import Command, start, tiny

pytestmark = pytest.mark.slow

Begin = Callable[..., Command]
READERS = {"runs", "digest"}
"""Commands that write nothing."""


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    number = iter(range(100))
    return lambda *words, **environment: start(
        tmp_path / f"log-{next(number)}", *words, **environment
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every command said on disks that are full and read-only."""
    folder = tmp_path_factory.mktemp("faults") / "disk"
    folder.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(folder)]
    if (
        not shutil.which("unshare")
        or subprocess.run([*alone, *mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("no disk can be mounted here")
    out = subprocess.run(
        [*alone, sys.executable, "-m", faults.__name__, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    found: dict[str, Any] = json.loads(out.stdout)
    return found


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("full", "No space left on device|database or disk is full"), ("read-only", "Read-only")],
)
def test_every_command_says_what_is_wrong_with_the_disk(
    fault: str, reason: str, said: dict[str, Any]
) -> None:
    for name, (code, text) in said[fault].items():
        assert "Traceback" not in text, text
        if name in READERS:
            assert code == 0, text
            continue
        assert code == 2, (name, text)
        last = text.splitlines()[-1]
        assert last.startswith("redqueen: ") and any(part in last for part in reason.split("|")), (
            name,
            last,
        )


def test_nothing_is_left_of_an_export_that_found_no_room(said: dict[str, Any]) -> None:
    for fault in ("full", "read-only"):
        assert not {"soup", "merged", "problems", "eval.json"} & set(said[f"left, {fault}"])


def test_a_run_whose_disk_was_full_goes_on_to_the_records_of_one_whose_was_not(
    said: dict[str, Any],
) -> None:
    run = said["a run"]
    assert run["failed"] == 2 and "Traceback" not in run["said"]
    assert "redqueen resume" in run["said"].splitlines()[-1]
    assert (run["went_on"], run["equal"]) == (0, True)


def test_a_lost_gpu_is_a_line_and_the_run_goes_on_from_its_last_step(
    begin: Begin, tmp_path: Path
) -> None:
    lost, settings = (
        tmp_path / "lost",
        [*faults.SMALL, "steps=2", "engine.type=tests.e2e.lost_gpu:LostGpu"],
    )
    known = {"REDQUEEN_TEST_LOST": str(lost)}
    begin(*tiny(tmp_path / "straight", *settings), **known).wait()
    lost.touch()
    command = begin(*tiny(tmp_path / "run", *settings), **known).wait(2)
    assert "redqueen: the GPU failed: CUDA error: unspecified launch failure." in command.err
    assert re.search(r"\nThe run is whole up to step [01]\. Go on with: redqueen", command.err)
    lost.unlink()
    begin("resume", tmp_path / "run", **known).wait()
    assert digest(tmp_path / "run") == digest(tmp_path / "straight")


def test_a_run_whose_sandbox_is_shot_has_the_records_of_one_whose_is_not(
    begin: Begin, tmp_path: Path
) -> None:
    settings = (*faults.SMALL, "steps=2")
    begin(*tiny(tmp_path / "straight", *settings)).wait()
    command = begin(*tiny(tmp_path / "run", *settings)).until(r" 1/2 ")
    shot = 0
    for process in find_descendants(command.process.pid):
        os.kill(process, signal.SIGKILL)
        shot += 1
    command.wait()
    assert shot >= 3
    assert digest(tmp_path / "run") == digest(tmp_path / "straight")


def test_a_run_whose_clock_jumps_has_the_records_of_one_whose_does_not(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (*faults.SMALL, "steps=1")
    begin(*tiny(tmp_path / "straight", *settings)).wait()
    calls, real = count(1), time.time_ns
    years = 10**17  # nanoseconds, ahead and back in turns
    monkeypatch.setattr("time.time_ns", lambda: real() + (-1) ** next(calls) * years)
    monkeypatch.setattr("time.time", lambda: time.time_ns() / 1e9)
    result = CliRunner().invoke(app, tiny(tmp_path / "run", *settings))
    assert result.exit_code == 0, result.output
    assert next(calls) > 1  # somebody has asked
    assert digest(tmp_path / "run") == digest(tmp_path / "straight")


def test_an_evaluation_that_is_ended_goes_on_from_its_replies(begin: Begin, tmp_path: Path) -> None:
    out = tmp_path / "eval.json"
    words = ["eval", "pawn", "--suite", "heldout-quick", "--limit", "60", "--device", "cpu"]
    command = begin(*words, "--out", out)
    replies = out.with_suffix(".attempts.jsonl")
    command._until(lambda: replies.exists() and replies.stat().st_size > 0)
    children = find_descendants(command.process.pid)
    command.signal(signal.SIGTERM)
    command.wait(130)
    assert "redqueen: ended by SIGTERM\n" in command.err
    assert f"the same command goes on from the replies in {replies}\n" in command.err
    time.sleep(1)
    assert children and not any(Path(f"/proc/{child}").exists() for child in children)
    before = len(replies.read_text().splitlines())
    begin(*words, "--out", out).wait()
    assert json.loads(out.read_text())["suites"]["heldout-quick"]["n"] == 60
    # an answer each, and one whose reasoning is forced
    assert 0 < before < 120 == len(replies.read_text().splitlines())


def test_cross_play_and_a_second_run_are_refused_while_another_process_is_at_the_run(
    begin: Begin, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    first = begin(*tiny(folder, "ledger.snapshot_every=1", *faults.SMALL)).until(r" 2/3 ")
    first.signal(signal.SIGSTOP)
    for words in (["crossplay", folder], ["resume", folder]):
        second = begin(*words).wait(2)
        assert f"is locked by process {first.process.pid}." in second.err
    assert f"{folder} already has a run." in begin(*tiny(folder)).wait(2).err
    begin("report", folder, "--out", tmp_path / "report.html").wait()
    begin("export", folder, "--problems", "--all", "--out", tmp_path / "problems").wait()
    first.signal(signal.SIGCONT)
    first.wait()
