"""A person plays against the students of a run in the terminal."""

import json
import shutil
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import DataError
from redqueen.evaluate.play import choose_problem, record_answer
from redqueen.ledger.lock import RunLock
from redqueen.ledger.people import Inbox
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import FILE, digest
from redqueen.records import Attempt
from tests.contract.test_old_runs import OLD
from tests.report.synthetic import Synthetic
from tests.scripted import TrustingSandbox, play, scripted_run, student, teacher

HOSTILE = "x\x1b]0;owned\x07 \u202eright to left"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    members = [teacher(0.0, 1.0), teacher(1.0)], [student(0.0), student(1.0)]
    folder = tmp_path / "run"
    with scripted_run(folder, TrustingSandbox(), *members, ["steps=2"]) as played:
        play(played)
    return folder


def first_problem(folder: Path) -> tuple[str, str]:
    with open_run(folder) as run:
        row = run.problems()[0]
    return row["problem"], row["gold"][0]


def call(*arguments: object, given: str | None = None) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)], input=given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_an_answer_is_graded_recorded_and_followed_by_the_students_attempts(run: Path) -> None:
    before = digest(run)
    key, gold = first_problem(run)
    text = call("play", run, "--problem", key[:8], "--answer", gold, "--name", "Ada")
    assert "\ncorrect\n" in text and "--- 1. S" in text and ">>output" in text
    assert "students: " in text and " of 4 attempts are correct" in text
    call("play", run, "--problem", key, "--answer", "nothing at all", "--name", "Ada")
    with open_run(run) as reader:
        rows = [(row["author"], row["problem"], row["outcome"]) for row in reader.people()]
        (last,) = {row["step"] for row in reader.people()}
    assert rows == [("Ada", key, "correct"), ("Ada", key, "malformed")] and last == 2
    assert Inbox(run).waiting() == []
    assert digest(run) == before  # an answer changes nothing


def test_an_answer_that_cannot_be_recorded_is_graded_all_the_same(run: Path) -> None:
    key, _ = first_problem(run)
    text = call("play", run, "--problem", key, "--answer", "-", given="7" * 25_000)
    assert "malformed" in text and "not recorded: text has 25,000 characters" in text
    odd = CliRunner().invoke(
        app, ["play", str(run), "--problem", key, "--answer", "-"], input=b"\xff"
    )
    assert odd.exit_code == 1 and isinstance(odd.exception, DataError)


def test_without_an_answer_the_problem_is_shown_without_its_gold_and_the_clock_runs(
    run: Path,
) -> None:
    key, gold = first_problem(run)
    text = call("play", run, "--problem", key, "--name", "Ada", given=f"{gold}\n\n")
    question, _, rest = text.partition("Your answer")
    assert "program:" in question and "input:" in question and gold not in question
    assert "correct after 0 s" in rest and f"gold: {gold}" in rest
    assert "no answer" in call("play", run, "--problem", key, given="")
    with open_run(run) as reader:
        (row,) = reader.people()
    assert row["content"]["text"] == gold


def test_while_a_run_is_being_played_an_answer_waits_for_its_next_step(run: Path) -> None:
    key, gold = first_problem(run)
    with RunLock(run):
        text = call("play", run, "--problem", key, "--answer", gold)
    assert "the run's next step takes it up" in text
    (action,) = Inbox(run).waiting()
    assert (action.action, action.content["verdict"]) == ("answer", "correct")
    with open_run(run) as reader:
        assert len(reader.people()) == 0


def test_a_problem_that_a_person_has_answered_is_not_chosen_again(run: Path) -> None:
    with open_run(run) as reader:
        keys = [row["problem"] for row in reader.problems()]
        rates = {
            row["problem"]: row["solve_rate"] or 0.0 for row in reader.proposals() if row["problem"]
        }
        seen = []
        for _ in keys:
            problem = choose_problem(reader, 0, "Ada", None, Random(0))
            seen.append(problem.key)
            record_answer(run, 0, "Ada", Attempt(problem, "1", "wrong"), 1.0)
    assert sorted(seen) == sorted(keys)
    telling = [0 < rates[key] < 1 for key in seen]
    assert telling == sorted(telling, reverse=True) and any(telling)  # these come first


def test_what_students_and_teachers_wrote_does_not_reach_the_terminal_as_it_is(
    tmp_path: Path,
) -> None:
    Synthetic(steps=1, thought=HOSTILE, program=f"def f(x):\n    return '{HOSTILE}'").write(
        tmp_path
    )
    with open_run(tmp_path) as run:
        key = next(row["problem"] for row in run.problems() if row["kind"] == "code_o")
    for given in (["--answer", "7"], []):
        text = call("play", tmp_path, "--problem", key, *given, given="7\n\n")
        assert "\\u001b]0;owned\\u0007" in text
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_a_run_of_an_older_version_is_played_too_and_left_as_it_was(tmp_path: Path) -> None:
    shutil.copy(OLD, tmp_path / FILE)
    before = (tmp_path / FILE).read_bytes()
    key, gold = first_problem(tmp_path)
    call("play", tmp_path, "--problem", key, "--answer", gold)
    assert (tmp_path / FILE).read_bytes() == before
    lines = (tmp_path / "people.jsonl").read_text().splitlines()
    assert [json.loads(line)["action"] for line in lines] == ["answer"]


def test_the_run_does_not_choose_what_walls_its_programs_run_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {"sandbox": {"unsafe": True, "without": ["landlock"], "type": "ray", "workers": 99}}
    Synthetic(steps=1, settings=theirs).write(tmp_path)
    key, gold = first_problem(tmp_path)
    opened: list[SandboxConfig] = []

    def open_sandbox(config: SandboxConfig) -> AbstractContextManager[TrustingSandbox]:
        opened.append(config)
        return nullcontext(TrustingSandbox())

    monkeypatch.setattr("redqueen.cli.play.open_sandbox", open_sandbox)
    words = ["play", str(tmp_path), "--problem", key, "--answer", gold]
    results = [CliRunner().invoke(app, [*words, *more]) for more in ([], ["--sandbox", "unsafe"])]
    assert opened == [SandboxConfig(), SandboxConfig(unsafe=True)]
    assert ["unsafe mode" in result.stderr for result in results] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--answer", "1"], "--answer needs --problem"),
        (["--problem", "zz", "--answer", "1"], "has a key that starts with 'zz'"),
        (["--kind", "code_0"], "Did you mean 'code_o'?"),
        (["--world", "3"], "unknown world '3'"),
        (["--name", "\x1b"], "a name has 1 to 60 characters"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], why: str, run: Path) -> None:
    result = CliRunner().invoke(app, ["play", str(run), *arguments])
    assert result.exit_code != 0 and why in str(result.exception)
