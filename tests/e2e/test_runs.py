"""Runs of Pawn as a user meets them: from `redqueen run` to its table, ended and killed and
resumed, and refused with a message."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from redqueen.ledger.store import digest, open_to_read
from tests.e2e.processes import Command, start, tiny

pytestmark = pytest.mark.slow

Begin = Callable[..., Command]


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(open_to_read(folder)) as connection:
        return [tuple(row) for row in connection.execute(query)]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed. Its name has brackets in it, as folders may."""
    folder = tmp_path_factory.mktemp("straight")
    start(folder / "log", *tiny(folder / "run[1]")).wait()
    return folder / "run[1]"


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """A command, in a process that this test owns."""
    number = iter(range(100))
    return lambda *words: start(tmp_path / f"log-{next(number)}", *words)


def test_a_run_ends_with_its_members_and_where_everything_is(straight: Path) -> None:
    command = Command(None, straight.parent / "log")
    assert f"Everything is in {straight}: run.sqlite" in command.out
    assert f"redqueen digest {shlex.quote(str(straight))}" in command.out
    for name, role in rows(straight, "SELECT member, role FROM ratings WHERE step = 3"):
        assert any(name in line and role in line for line in command.out.splitlines())
    lines = command.err.splitlines()
    assert lines[1].startswith("valid: ")  # the columns are explained, once
    assert [line.split()[0] for line in lines[4:]] == ["step", "1/3", "2/3", "3/3"]
    assert max(map(len, lines)) <= 80
    assert rows(straight, "SELECT value FROM run WHERE name = 'ended'") == [("all steps played",)]


def test_such_a_run_has_all_that_the_tests_below_rely_on(straight: Path) -> None:
    assert rows(straight, "SELECT count(*) FROM deaths") == [(6,)]
    assert rows(straight, "SELECT count(*) > 0 FROM updates") == [(1,)]
    assert rows(straight, "SELECT count(*) > 0 FROM problems WHERE step = 3") == [(1,)]
    assert rows(straight, "SELECT count(DISTINCT verdict) > 1 FROM attempts") == [(1,)]


def test_ctrl_c_ends_after_the_step_and_says_how_to_go_on_and_meanwhile_nobody_else_gets_in(
    begin: Begin, tmp_path: Path, straight: Path
) -> None:
    folder = tmp_path / "run"
    first = begin(*tiny(folder)).until(r" 1/3 ")
    first.signal(signal.SIGSTOP)
    second = begin("resume", folder).wait(2)
    assert f"{folder} is locked by process {first.process.pid}." in second.err
    first.signal(signal.SIGINT)
    first.signal(signal.SIGCONT)
    first.wait(130)
    assert "ending after this step; once more ends at once" in first.err
    ((step,),) = rows(folder, "SELECT max(step) FROM marks")
    assert step < 3 and first.err.endswith(
        f"stopped after step {step} of 3. Go on with: redqueen resume {folder}\n"
    )
    assert "Everything" not in first.out
    again = begin("resume", folder).wait()
    assert f"going on after step {step} of 3" in again.err and "Everything is in" in again.out
    assert digest(folder) == digest(straight)


def test_ctrl_c_between_two_checkpoints_takes_one_so_that_no_step_is_played_again(
    begin: Begin, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    first = begin(*tiny(folder), "--set", "ledger.checkpoint_every=50").until(r" 1/3 ")
    first.signal(signal.SIGINT)
    first.wait(130)
    ((step,),) = rows(folder, "SELECT max(step) FROM marks")
    again = begin("resume", folder).wait()
    assert 0 < step < 3 and f"going on after step {step} of 3" in again.err


def test_a_second_ctrl_c_ends_at_once_and_loses_no_step(begin: Begin, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = begin(*tiny(folder)).until(r" 1/3 ")
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        command.signal(number)
    command.wait(143)  # signals that wait together are handled by number: SIGTERM comes second
    ((step,),) = rows(folder, "SELECT max(step) FROM marks")
    assert (
        step < 3
        and f"ended in step {step + 1}, of which nothing is kept. Go on with: redqueen resume {folder}\n"
        in command.err
    )


def test_a_run_that_is_ended_while_it_measures_itself_says_how_to_go_on_and_then_does(
    begin: Begin, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    suites = ("evaluate.suite=heldout-quick", "evaluate.limit=6", "evaluate.votes=1")
    settings = ("steps=1", *suites, "evaluate.others=['heldout-deduction']")
    command = begin(*tiny(folder, *settings)).until("measuring the base and .* on heldout-quick")
    command.signal(signal.SIGTERM)
    command.wait(143)
    assert "redqueen: ended by SIGTERM\n" in command.err
    assert f"Do it with: redqueen resume {folder}\n" in command.err
    listed = begin("runs", folder).wait()
    assert "done, not measured" in listed.out and "redqueen resume" in listed.err
    again = begin("resume", folder).wait()
    assert "on heldout-quick, 6 problems" in again.err and "the base solves" in again.out
    assert "on heldout-deduction" not in again.err  # it was measured before
    assert "not measured" not in begin("runs", folder).wait().out


def test_a_run_that_is_killed_again_and_again_has_the_records_of_one_that_is_not(
    begin: Begin, tmp_path: Path, straight: Path
) -> None:
    folder, rng, kills = tmp_path / "run", Random(1), 0
    while kills < 4:
        there = (folder / "run.sqlite").exists()
        command = begin(*(["resume", folder] if there else tiny(folder)))
        started = time.monotonic()
        wait_s = rng.uniform(0, 3) if there else 2.0
        while command.process.is_alive() and time.monotonic() < started + wait_s:
            time.sleep(0.01)
        command.process.kill()
        command.process.join()
        kills += 1
    begin(*(["resume", folder] if (folder / "run.sqlite").exists() else tiny(folder))).wait()
    assert digest(folder) == digest(straight)


def test_a_broken_checkpoint_is_said_and_the_run_goes_on_from_the_one_before(
    begin: Begin, tmp_path: Path, straight: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(straight, folder)
    broken = sorted(folder.glob("checkpoints/000003/optimizer/0/*"))[0]
    content = bytearray(broken.read_bytes())
    content[len(content) // 2] ^= 1
    broken.write_bytes(content)
    with contextlib.closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        connection.execute(
            "UPDATE run SET value = replace(value, '\"torch\": \"', '\"torch\": \"0.') WHERE name = 'machine'"
        )
    command = begin("resume", folder).wait()
    assert "since this run began: torch 0." in command.err
    checkpoint = folder / "checkpoints/000003"
    assert f"checkpoint {checkpoint} cannot be used: optimizer/0/{broken.name}" in command.err
    assert "going on after step 2 of 3" in command.err
    assert digest(folder) == digest(straight)


def test_one_member_in_both_roles_plays_by_itself_and_equal_seeds_give_equal_digests(
    begin: Begin, tmp_path: Path
) -> None:
    """The second run is in a process that has nothing in common with the first, not even the hashes
    of its texts."""
    settings = (
        "steps=1",
        "population.teachers=0",
        "population.students=1",
        "match.scheme=self_play",
        "propose.samples=4",
    )
    begin(*tiny(tmp_path / "a", *settings)).wait()
    command = [sys.executable, "-m", "redqueen", *tiny(tmp_path / "b", *settings)]
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "12345"}
    )
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert rows(tmp_path / "a", "SELECT teacher, student, score FROM pairings") == [
        ("B0", "B0", None)
    ]
    assert rows(tmp_path / "a", "SELECT member FROM updates") == [("B0",)]


def test_fixed_problems_are_learned_from_and_the_end_compares_students_with_the_base(
    begin: Begin, tmp_path: Path
) -> None:
    settings = (
        "steps=2",
        "population.teachers=0",
        "fixed.problems=3",
        "fixed.tiers=[2, 3]",
        "evaluate.suite=heldout-quick",
        "evaluate.every=1",
        "evaluate.limit=3",
    )
    command = begin(*tiny(tmp_path / "run", *settings)).wait()
    assert "measuring the base and 3 others on heldout-quick, 3 problems each" in command.err
    assert command.err.count("held-out: S0 ") == 1
    assert (
        "heldout-quick: the base solves" in command.out
        and "students on average" in command.out
        and "weakest student" in command.out
    )
    measured = rows(
        tmp_path / "run",
        "SELECT step, subject, count(*) FROM evals WHERE suite = 'heldout-quick' "
        "AND subject NOT IN ('soup', 'chosen', 'vote') GROUP BY step, subject",
    )
    students = [(1, "S0", 3), (1, "S1", 3), (2, "S0", 3), (2, "S1", 3)]
    assert measured == [*students, (2, "base", 3), (2, "base, reasoning forced", 3)]
    assert rows(tmp_path / "run", "SELECT DISTINCT teacher FROM proposals") == [("fixed",)]
    assert rows(tmp_path / "run", "SELECT count(*) FROM deaths") == [(0,)]
    before = digest(tmp_path / "run")
    shutil.rmtree(
        tmp_path / "run/checkpoints/000002"
    )  # as if it had been killed after step 1, before the measurement was written down
    with contextlib.closing(sqlite3.connect(tmp_path / "run/run.sqlite")) as connection, connection:
        connection.execute("DELETE FROM evals WHERE step = 1")
    again = begin("resume", tmp_path / "run").wait()
    assert (
        again.err.index("going on after step 1")
        < again.err.index("held-out: S0 ")
        < again.err.index("2/2")
    )
    assert digest(tmp_path / "run") == before


def test_a_domain_of_ones_own_is_played_by_import_path(begin: Begin, tmp_path: Path) -> None:
    kind = "tests.outside.any_order:AnyOrder"
    begin(*tiny(tmp_path / "run", "steps=1", f"tasks.kinds=['{kind}']")).wait()
    assert rows(tmp_path / "run", "SELECT DISTINCT kind FROM proposals") == [(kind,)]
    assert rows(tmp_path / "run", "SELECT DISTINCT kind FROM problems") == [(kind,)]
    assert rows(tmp_path / "run", "SELECT count(*) > 0 FROM attempts") == [(1,)]


def test_a_run_without_a_valid_problem_stops_and_says_why(begin: Begin, tmp_path: Path) -> None:
    command = begin(
        *tiny(tmp_path / "run", "propose.max_tokens=1", "stop.steps_without_problem=1")
    ).wait(3)
    assert "stopped after step 1: no proposal was a valid problem in 1 step." in command.err
    assert rows(
        tmp_path / "run", "SELECT value LIKE 'stopped after step 1%' FROM run WHERE name = 'ended'"
    ) == [(1,)]


def test_weights_that_explode_stop_the_run_with_a_message(begin: Begin, tmp_path: Path) -> None:
    rates = "update.learning_rate=1e30", "update.teacher_learning_rate=1e30"
    command = begin(*tiny(tmp_path / "run", *rates, "evolve.every=0")).wait(3)
    assert "stopped after step " in command.err and "Lower update.learning_rate" in command.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--base", "no/such[x]/folder"], "there is no folder no/such[x]/folder"),
        (["--set", "evaluate.suite=heldot"], "unknown suite 'heldot'. Did you mean 'heldout'?"),
        (
            ["--set", "evaluate.suite=humaneval", "--set", "evaluate.data=nowhere"],
            "humaneval: there is no humaneval.jsonl",
        ),
        (
            ["--set", "tasks.kinds=['nowhere:Kind']"],
            "the task kind 'nowhere:Kind' cannot be imported",
        ),
        (
            ["--set", "population.teachers=0", "--set", "fixed.source=nowhere.jsonl"],
            "there is no file nowhere.jsonl",
        ),
        (["--set", "archive.seeds=nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["--device", "cdua"], "cdua"),
    ],
)
def test_what_cannot_be_played_is_said_and_leaves_nothing_behind(
    begin: Begin, tmp_path: Path, words: list[str], message: str
) -> None:
    command = begin("run", "--out", tmp_path / "run", *words).wait(2)
    assert message in command.err
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_is_not_written_over_and_one_without_is_not_resumed(
    begin: Begin, tmp_path: Path, straight: Path
) -> None:
    before = digest(straight)
    command = begin(*tiny(straight)).wait(2)
    assert (
        f"{straight} already has a run. Choose another folder with --out, or continue it with: redqueen resume {straight}"
        in command.err
    )
    assert "no run in" in begin("resume", tmp_path).wait(2).err
    (tmp_path / "file").touch()
    assert f"{tmp_path / 'file'} is not a folder" in begin(*tiny(tmp_path / "file")).wait(2).err
    assert "has 3 steps already" in begin("resume", straight, "--steps", "2").wait(2).err
    assert digest(straight) == before


def test_runs_are_listed_with_how_far_they_came(
    begin: Begin, tmp_path: Path, straight: Path
) -> None:
    (found,) = json.loads(begin("runs", straight.parent, "--json").wait().out)
    assert (found["folder"], found["steps_done"], found["steps_wanted"], found["ended"]) == (
        str(straight),
        3,
        3,
        "all steps played",
    )
    assert "done" in begin("runs", straight.parent).wait().out
    folder = tmp_path / "none[1]"
    assert f"there is no folder {folder}" in begin("runs", folder).wait(2).err
    folder.mkdir()
    said = begin("runs", folder).wait().out
    assert said == f"no runs in {folder}. `redqueen run` starts one.\n"


def test_a_run_goes_further_than_it_was_to_go(begin: Begin, tmp_path: Path, straight: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(straight, folder)
    assert "going on after step 3 of 4" in begin("resume", folder, "--steps", "4").wait().err
    assert rows(folder, "SELECT max(step) FROM marks") == [(4,)]
    assert rows(folder, "SELECT value FROM run WHERE name = 'steps'") == [("4",)]
