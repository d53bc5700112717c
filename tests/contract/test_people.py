"""What people do with a run is taken up at the beginning of a step and recorded with their names,
and a run that is killed and resumed takes up the same in the same steps."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import redqueen
from redqueen.core.run import Run
from redqueen.errors import ConfigError
from redqueen.ledger.people import FILE, Inbox, clean_name
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import digest, open_to_read
from redqueen.stages.reward.people import Strengths, fit_bradley_terry
from tests.scripted import (
    Script,
    ScriptedArm,
    TrustingSandbox,
    play,
    scripted_run,
    scripted_worlds,
    student,
    teacher,
)

TEACHERS: Sequence[Script] = [teacher(0.0, 1.0), teacher(1.0, 2.0, valid=0.8)]
STUDENTS: Sequence[Script] = [student(0.0), student(1.0)]
PROGRAM = "def f(x):\n    level = 0.5\n    return x + 17"
POSED = {"kind": "code_o", "blocks": [["program", PROGRAM], ["input", "3"]]}

ANSWER = {"problem": "k", "text": "1", "verdict": "wrong", "seconds": 2}


def played(folder: Path, *settings: str, until: int | None = None) -> Run:
    with scripted_run(folder, TrustingSandbox(), TEACHERS, STUDENTS, settings) as run:
        play(run, until)
    return run


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(open_to_read(folder)) as connection:
        return [tuple(row) for row in connection.execute(query)]


def side(folder: Path, key: str) -> dict[str, str]:
    with open_run(folder) as run:
        row = next(row for row in run.problems() if row["problem"] == key)
    return {"problem": key, "teacher": row["author"] or "", "structure": row["structure"]}


def two_sides(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """A problem of each teacher."""
    query = "SELECT min(problem) FROM problems WHERE author = '{}'"
    first, second = (rows(folder, query.format(name))[0][0] for name in ("T0", "T1"))
    return side(folder, first), side(folder, second)


def three_actions(folder: Path) -> None:
    better, worse = two_sides(folder)
    inbox = Inbox(folder)
    inbox.add("Ada", "pose", POSED)
    inbox.add("Ben", "veto", {"problem": worse["problem"], "structure": worse["structure"]})
    inbox.add("Ada", "rate", {"better": better, "worse": worse})


# what a step makes of them


def test_a_posed_problem_is_verified_met_by_all_students_and_kept_with_its_author(
    tmp_path: Path,
) -> None:
    played(tmp_path, "steps=4", until=1)
    Inbox(tmp_path).add("Ada", "pose", POSED)
    played(tmp_path, "steps=4", "archive.policy=all")
    with open_run(tmp_path) as run:
        (row,) = run.people()
        (problem,) = [one for one in run.problems() if one["author"] == "person:Ada"]
        attempts = [one for one in run.attempts() if one["problem"] == problem["problem"]]
        (proposal,) = [one for one in run.proposals() if one["teacher"] == "person:Ada"]
        updates = {one["member"] for one in run.updates()}
    assert (row["author"], row["action"], row["step"]) == ("Ada", "pose", 2)
    assert row["outcome"] == "accepted" and row["problem"] == problem["problem"]
    assert problem["gold"] == ["20"]
    assert {one["student"] for one in attempts if one["step"] == 2} == {"S0", "S1"}
    assert len([one for one in attempts if one["step"] == 2]) == 8
    correct = sum(one["verdict"] == "correct" for one in attempts if one["step"] == 2)
    assert row["detail"] == f"{correct} of 8 attempts are correct"
    assert (proposal["pairing"], proposal["tokens"], proposal["reward"]) == (-1, 0, 0.0)
    assert proposal["solve_rate"] == correct / 8
    assert any(one["advantage"] for one in attempts)  # students learn from it
    assert updates <= {"T0", "T1", "S0", "S1"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            {"kind": "code_o", "blocks": [["program", "def g(): pass"], ["input", "?"]]},
            "malformed: ",
        ),
        ({"kind": "code_o", "blocks": [["nothing", "<b>"]]}, "malformed: 0 blocks labelled"),
        ({"kind": "code_z", "blocks": [["program", "x"]]}, "the run does not play the kind code_z"),
    ],
)
def test_what_is_no_problem_is_rejected_with_the_reason(
    content: dict[str, Any], why: str, tmp_path: Path
) -> None:
    played(tmp_path, "steps=2", until=1)
    Inbox(tmp_path).add("Ada", "pose", content)
    played(tmp_path, "steps=2")
    ((outcome, detail),) = rows(tmp_path, "SELECT outcome, detail FROM people")
    assert outcome == "rejected" and detail.startswith(why)


def test_a_problem_that_is_posed_twice_is_a_duplicate(tmp_path: Path) -> None:
    played(tmp_path, "steps=2", until=1)
    for name in ("Ada", "Ben"):
        Inbox(tmp_path).add(name, "pose", POSED)
    played(tmp_path, "steps=2")
    found = rows(tmp_path, "SELECT author, outcome, detail FROM people ORDER BY number")
    assert found[0][:2] == ("Ada", "accepted")
    assert found[1][:2] == ("Ben", "rejected") and found[1][2].startswith("duplicate")


def test_what_a_person_vetoes_leaves_the_archive_and_is_rejected_from_then_on(
    tmp_path: Path,
) -> None:
    played(tmp_path, "steps=4", "archive.policy=all", until=1)
    better, worse = two_sides(tmp_path)
    assert better["structure"] != worse["structure"]  # constants are part of it
    settings = ["steps=4", "archive.policy=all"]
    Inbox(tmp_path).add("Ben", "veto", {"problem": worse["problem"]})
    posed = {**POSED, "blocks": [["program", PROGRAM], ["input", "4"]]}
    with scripted_run(tmp_path, TrustingSandbox(), TEACHERS, STUDENTS, settings) as run:
        assert worse["problem"] in run.worlds[0].archive
        play(run, 2)
        assert worse["problem"] not in run.worlds[0].archive
        assert better["problem"] in run.worlds[0].archive
        Inbox(tmp_path).add("Ada", "pose", POSED)
        play(run, 3)
        (key,) = rows(tmp_path, "SELECT problem FROM people WHERE action = 'pose'")[0]
        structure = side(tmp_path, key)["structure"]
        Inbox(tmp_path).add("Ben", "veto", {"problem": key, "structure": structure})
        Inbox(tmp_path).add("Ada", "pose", posed)
        play(run, 4)
        assert key not in run.worlds[0].archive
    detail = rows(tmp_path, "SELECT outcome, detail FROM people WHERE step = 4 ORDER BY number")
    assert detail[0] == ("vetoed", "1 left the archive")
    assert detail[1] == ("rejected", f"vetoed: {structure}")


def test_ratings_enter_the_reward_of_a_teacher_with_their_weight(tmp_path: Path) -> None:
    rewards = {}
    for weight in ("0", "0.5"):
        folder = tmp_path / weight
        settings = ("steps=2", f"reward.people_weight={weight}")
        played(folder, *settings, until=1)
        better, worse = two_sides(folder)
        for _ in range(6):
            Inbox(folder).add("Ada", "rate", {"better": better, "worse": worse})
        played(folder, *settings)
        query = "SELECT teacher, avg(reward) FROM proposals WHERE step = 2 AND problem IS NOT NULL GROUP BY teacher"
        rewards[weight] = dict(rows(folder, query))
    for name, sign in (("T0", 1), ("T1", -1)):
        change = rewards["0.5"][name] - rewards["0"][name]
        assert 0.1 < sign * change < 0.5, name


def test_a_fit_orders_teachers_as_people_do_and_stays_finite() -> None:
    strengths = fit_bradley_terry(
        [(("a", "x"), ("b", "y"))] * 20 + [(("b", "y"), ("c", "z"))] * 20 + [(("a",), ("a",))]
    )
    assert strengths["a"] > strengths["b"] > strengths["c"] > -10
    assert fit_bradley_terry([]) == {}
    assert Strengths(strengths).preference("a", "x") > 0.5 > 0 == Strengths({}).preference("new")
    even = fit_bradley_terry([(("a",), ("b",)), (("b",), ("a",))])
    assert abs(even["a"] - even["b"]) < 1e-6


def test_each_world_takes_what_is_meant_for_it(tmp_path: Path) -> None:
    arms = [
        ScriptedArm("one", TEACHERS, STUDENTS, ["steps=1"]),
        ScriptedArm("two", TEACHERS, STUDENTS, ["steps=1", "seed=1"]),
    ]
    with scripted_worlds(tmp_path, TrustingSandbox(), arms) as run:
        for world in (1, 7):
            Inbox(tmp_path).add("Ada", "pose", POSED, world)
        play(run)
    found = rows(tmp_path, "SELECT world, number, outcome FROM people ORDER BY world")
    assert found == [(1, 0, "accepted"), (7, 1, "ignored")]


def test_students_without_teachers_meet_posed_problems_too(tmp_path: Path) -> None:
    arm = ScriptedArm("run", [], STUDENTS, ["steps=1", "fixed.problems=2"])
    with scripted_worlds(tmp_path, TrustingSandbox(), [arm]) as run:
        for _ in range(2):
            Inbox(tmp_path).add("Ada", "pose", POSED)
        play(run)
    found = rows(tmp_path, "SELECT outcome FROM people ORDER BY number")
    assert found == [("accepted",), ("rejected",)]
    query = "SELECT count(*) FROM attempts a JOIN problems p ON p.problem = a.problem WHERE p.author = 'person:Ada'"
    assert rows(tmp_path, query) == [(8,)]


# the same run


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint_every", [1, 3, 6])
def test_a_run_with_rows_of_people_that_is_killed_and_resumed_has_the_same_digest(
    tmp_path: Path, checkpoint_every: int
) -> None:
    """The actions arrive after the second step. The killed run is copied as a kill would leave it:
    after its fourth step, with the checkpoint of the fourth, of the third, or of none."""
    settings = (
        "steps=6", f"ledger.checkpoint_every={checkpoint_every}", "reward.people_weight=0.3",
        "archive.policy=all", "evolve.every=2", "evolve.share=0.5",
    )  # fmt: skip
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    with scripted_run(straight, TrustingSandbox(), TEACHERS, STUDENTS, settings) as run:
        play(run, 2)
        three_actions(straight)
        play(run, 4)
        shutil.copytree(straight, killed)
        play(run)
    Inbox(killed).add("Eve", "pose", {**POSED, "blocks": [["program", "x"], ["input", "1"]]})
    played(killed, *settings, until=4)  # Eve's comes to a step that had not been played before
    assert rows(killed, "SELECT step, author FROM people ORDER BY step, number") == [
        (3, "Ada"), (3, "Ben"), (3, "Ada"),
    ]  # fmt: skip
    late = (killed / FILE).read_text().splitlines()
    (killed / FILE).write_text("".join(f"{line}\n" for line in late if "Eve" not in line))
    played(killed, *settings)
    assert rows(straight, "SELECT count(*) FROM people") == [(3,)]
    assert digest(killed) == digest(straight)


def test_a_kill_within_the_step_that_takes_actions_up_changes_nothing(tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    with scripted_run(straight, TrustingSandbox(), TEACHERS, STUDENTS, ["steps=4"]) as run:
        play(run, 2)
        three_actions(straight)
        shutil.copytree(straight, killed)
        play(run)
    with scripted_run(killed, TrustingSandbox(), TEACHERS, STUDENTS, ["steps=4"]) as run:
        run.inbox.take(3)  # it is on the disk that step 3 takes them, and the step is not
    Inbox(killed).add("Eve", "answer", ANSWER)
    played(killed, "steps=4")
    query = "SELECT step, author FROM people ORDER BY step, number"
    assert rows(killed, query) == [(3, "Ada"), (3, "Ben"), (3, "Ada"), (4, "Eve")]
    assert digest(killed) == digest(straight)  # an answer changes nothing


# the file


def test_a_step_takes_so_many_problems_and_the_next_one_the_others(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    posed = [inbox.add("Ada", "pose", POSED).id for _ in range(20)]
    answer = inbox.add("Ada", "answer", ANSWER).id
    assert [action.id for action in Inbox(tmp_path).take(1)] == [*posed[:16], answer]
    assert [action.id for action in Inbox(tmp_path).take(2)] == posed[16:]
    assert [action.id for action in Inbox(tmp_path).take(1)] == [*posed[:16], answer]
    assert Inbox(tmp_path).take(3) == []


def test_broken_and_hostile_lines_are_skipped_with_a_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox(tmp_path)
    good = inbox.add("Ada", "pose", POSED)
    fields = json.loads((tmp_path / FILE).read_text())
    changes: list[dict[str, Any]] = [
        {"author": ""}, {"author": "\x1b[31m"}, {"author": 5}, {"world": -1}, {"world": 1e3},
        {"action": "delete"}, {"action": []}, {"content": []},
        {"content": {"kind": "code_o", "blocks": [["a", "\ud800"]]}},
        {"content": {"kind": "code_o", "blocks": [["a", "b" * 30_000]]}},
        {"content": {"kind": "code_o", "blocks": [["a"]]}},
        {"action": "answer", "content": {"problem": "", "text": "", "verdict": "", "seconds": float("nan")}},
        {"action": "rate", "content": {"better": 1, "worse": 2}},
    ]  # fmt: skip
    lines: list[bytes] = [
        b"{", b"[]", b"7", b"\xff\xfe", b"[" * 100_000, b"NaN", b'{"step": true, "takes": []}',
        b'{"step": 3, "takes": 5}', b"x" * (1 << 20),
        json.dumps(fields).encode(),
        *(
            json.dumps({**fields, "id": "other", **change}).encode()
            for change in changes
        ),
    ]  # fmt: skip
    with (tmp_path / FILE).open("ab") as file:
        file.write(b"\n".join(lines) + b"\n\n" + b'{"id": "half')
    last = Inbox(tmp_path).add("Ben", "pose", POSED)
    taken = Inbox(tmp_path).take(1)
    assert [action.id for action in taken] == [good.id, last.id]
    assert len([text for text in caplog.messages if "is skipped" in text]) == len(lines) + 1


def test_a_run_plays_on_whatever_is_in_the_file(tmp_path: Path) -> None:
    played(tmp_path, "steps=3", until=1)
    (tmp_path / FILE).write_bytes(b'{"step": 2, "takes": ["nobody", 5]}\n\x00\n{"id": "half')
    played(tmp_path, "steps=3", until=2)
    (tmp_path / FILE).unlink()
    os.mkfifo(tmp_path / FILE)
    played(tmp_path, "steps=3")
    assert rows(tmp_path, "SELECT count(*) FROM people") == [(0,)]


def test_a_new_run_does_not_take_what_people_did_with_another(tmp_path: Path) -> None:
    Inbox(tmp_path).add("Ada", "pose", POSED)
    with pytest.raises(ConfigError, match=rf"remains of another run \({FILE}\)"):
        played(tmp_path, "steps=1")


def test_a_run_that_nobody_takes_part_in_has_no_such_file(tmp_path: Path) -> None:
    played(tmp_path, "steps=2")
    assert not (tmp_path / FILE).exists()


def test_what_is_acknowledged_can_be_read_again(tmp_path: Path) -> None:
    """A line has a limit, and spelled out a character may take six times its bytes."""
    blocks = [["program", "é" * 20_000]] * 3
    with pytest.raises(ValueError, match="bytes in all, at most"):
        Inbox(tmp_path).add("Ada", "pose", {"kind": "code_o", "blocks": blocks})
    added = Inbox(tmp_path).add("Ada", "pose", {"kind": "code_o", "blocks": blocks[:2]})
    assert Inbox(tmp_path).waiting() == [added]


def test_a_name_is_short_and_shows() -> None:
    assert clean_name("  Ada \n Lovelace ") == "Ada Lovelace"
    for name in ("", " ", "x" * 61, "a\u202eb", "\x00", None, 5):
        with pytest.raises(ValueError, match="a name has 1 to 60 characters"):
            clean_name(name)


# kills

_KILLED = """
import os, signal, sys
from pathlib import Path
from redqueen.core.run import Run
from redqueen.ledger.people import Inbox
from redqueen.ledger.store import Ledger
from tests.contract.test_people import played

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def half_a_line(self, file, fields):
    os.write(file, b'{"step": 3, "ta')
    die()

def after(function, is_due):
    def call(*args):
        result = function(*args)
        if is_due(*args):
            die()
        return result
    return call

folder, point = Path(sys.argv[1]), sys.argv[2]
if point == "half a line":
    Inbox._append = half_a_line
elif point == "taken":
    Inbox.take = after(Inbox.take, lambda inbox, step: step == 3)
elif point == "written":
    Ledger.write = after(Ledger.write, lambda ledger, step, rows: step == 3)
elif point == "marked":
    Inbox.mark = after(Inbox.mark, lambda inbox, step: True)
elif point == "saved":
    Run._save = after(Run._save, lambda run: run.step == 3)
played(folder, "steps=4", "reward.people_weight=0.3")
"""


def kill(folder: Path, point: str) -> None:
    source, here = Path(redqueen.__file__).parents[1], Path(__file__).parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder), point],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (source, here)))},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr


@pytest.mark.slow
def test_a_kill_at_any_point_of_taking_actions_up_changes_nothing(tmp_path: Path) -> None:
    settings = ("steps=4", "reward.people_weight=0.3")
    played(tmp_path / "straight", *settings, until=2)
    three_actions(tmp_path / "straight")
    for point in ("half a line", "taken", "written", "saved"):
        shutil.copytree(tmp_path / "straight", tmp_path / point)
    played(tmp_path / "straight", *settings)
    for point in ("half a line", "taken", "written", "saved"):
        kill(tmp_path / point, point)
        if point == "written":  # and again, when it is noted which steps were played
            kill(tmp_path / point, "marked")
        Inbox(tmp_path / point).add("Eve", "answer", ANSWER)
        played(tmp_path / point, *settings)
        query = "SELECT step, author FROM people ORDER BY step, number"
        assert rows(tmp_path / point, query)[:3] == [(3, "Ada"), (3, "Ben"), (3, "Ada")], point
        assert digest(tmp_path / point) == digest(tmp_path / "straight"), point
