"""A run that somebody else made: reading it runs nothing of theirs, changes nothing outside it, and
ends."""

import json
import lzma
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import redqueen as rq
from redqueen.config.registry import VOUCHED, UnreadChoice, import_path
from redqueen.core.build import read_arms
from redqueen.errors import ConfigError, DataError, RedQueenError, StorageError
from redqueen.evaluate.replies import EvalConfig, GradedReply
from redqueen.evaluate.reply_cache import ReplyCache
from redqueen.ledger.lock import RunLock, is_held
from redqueen.ledger.members import adapter_name
from redqueen.ledger.people import Inbox
from redqueen.ledger.runs import list_runs
from redqueen.ledger.store import Ledger, digest
from redqueen.report.compare import compare_runs
from redqueen.report.show import show_problem
from redqueen.report.watch import LiveFigures
from redqueen.tasks import load_kind
from tests.report.synthetic import Synthetic

THEIRS = "their_package.things"
KIND = f"{THEIRS}:Kind"
SETTINGS: dict[str, Any] = {
    "tasks": {"kinds": ["code_o", KIND], "prompt_format": f"{THEIRS}:Format"},
    "reward": {"teacher": {"type": f"{THEIRS}:reward", "own": 1.5}},
    "match": {"scheme": f"{THEIRS}:scheme"},
    "games": {"race": 0.5, f"{THEIRS}:Game": 0.5},
    "evolve": {"mutations": [{"type": f"{THEIRS}:mutation", "settings": {"eps": 1}}]},
    "sandbox": {"type": f"{THEIRS}:Sandbox"},
    "engine": {"type": "processes"},
    "evaluate": {"suite": f"{THEIRS}:Suite"},
    "trackers": [f"{THEIRS}:Tracker"],
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """With problems of a kind of theirs."""
    Synthetic(steps=2, settings=SETTINGS).write(tmp_path / "run")
    text = "\n".join([f"tasks.kinds = ['{KIND}']", f"sandbox.type = '{THEIRS}:Sandbox'"])
    edit(
        tmp_path / "run",
        f"UPDATE problems SET kind = '{KIND}' WHERE step = 1",
        f"UPDATE run SET value = \"{text}\" WHERE name = 'config'",
    )
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was imported of theirs, which Python would find."""
    folder = tmp_path / "found" / "their_package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "things.py").write_text(
        "import sys\nsys.their_imports.append(__name__)\n"
        "def reward(*args): ...\n"
        "scheme = mutation = Format = Sandbox = Tracker = Suite = Kind = reward\n"
        "class Game:\n    students = 1\n"
    )
    found: list[str] = []
    monkeypatch.setattr(sys, "their_imports", found, raising=False)
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.delenv(VOUCHED, raising=False)
    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] == "their_package"]:
        del sys.modules[name]
    load_kind.cache_clear()


def edit(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def _key(folder: Path) -> str:
    with rq.open_run(folder) as reader:
        return str(reader.problems()[0]["problem"])


READERS: dict[str, Callable[[Path], Any]] = {
    "settings": lambda run: rq.open_run(run).config,
    "settings of a world": lambda run: rq.open_run(run).worlds[0].config,
    "digest": digest,
    "report": lambda run: rq.report(run, run / "report.html"),
    "compare": lambda run: compare_runs([("a", run), ("b", run)]),
    "live page": lambda run: LiveFigures([run], 5.0).newest(),
    "one problem": lambda run: show_problem(run, _key(run)),
}


@pytest.mark.parametrize("name", READERS)
def test_reading_a_run_imports_nothing_that_it_names(
    name: str, run: Path, imported: list[str]
) -> None:
    READERS[name](run)
    assert imported == []


def test_settings_of_what_was_not_imported_are_there_as_they_were_stored(run: Path) -> None:
    with rq.open_run(run) as reader:
        teacher = reader.worlds[0].config.reward.teacher
        stored = json.loads(reader.worlds[0].config.model_dump_json())
    assert isinstance(teacher, UnreadChoice)
    assert teacher.model_dump() == {"type": f"{THEIRS}:reward", "own": 1.5}
    assert stored["reward"]["teacher"] == {"type": f"{THEIRS}:reward", "own": 1.5}


@pytest.mark.parametrize("export", [rq.export_problems])
def test_an_export_that_needs_a_kind_of_theirs_says_how_to_trust_it(
    export: Callable[..., Any], run: Path, imported: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"'{KIND}' is not imported.*{VOUCHED}=their_package"):
        export(run, tmp_path / "out")
    assert imported == [] and not (tmp_path / "out").exists()


@pytest.mark.parametrize("packages", ["their_package", "other, their_package", THEIRS])
def test_packages_that_the_user_vouches_for_are_imported(
    packages: str, run: Path, imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VOUCHED, packages)
    with pytest.raises(ConfigError, match="unknown setting 'own'"):  # now it is checked
        READERS["settings of a world"](run)
    assert imported == [THEIRS]


@pytest.mark.parametrize("packages", ["their", "their_package.other", "package", ""])
def test_other_packages_are_not(
    packages: str, run: Path, imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VOUCHED, packages)
    READERS["settings of a world"](run)
    assert imported == []


def test_what_is_imported_to_play_on_is_named_first(
    tmp_path: Path, imported: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    own = {"reward": {"student": f"{THEIRS}:reward"}, "trackers": [f"{THEIRS}:Tracker"]}
    Synthetic(steps=2, settings=own).write(tmp_path / "run")
    ((_, config),) = read_arms(tmp_path / "run")
    assert config.reward.student.type == f"{THEIRS}:reward" and imported == [THEIRS]
    (record,) = caplog.records
    assert f"imported now: {THEIRS}:Tracker, {THEIRS}:reward" in record.message
    assert f"{VOUCHED}=their_package says that you do" in record.message


@pytest.mark.parametrize(
    "path", ["subprocess:Popen", "os:system", "shutil:rmtree", "antigravity:x", "os.path:join"]
)
def test_nothing_of_pythons_own_library_is_made_for_a_setting(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`subprocess:Popen` with a table of settings would run a command."""
    monkeypatch.setenv(VOUCHED, path.partition(":")[0])
    with pytest.raises(ConfigError, match=f"'{path}' cannot be imported: .* is a module of Python"):
        import_path("tracker", path)
    Synthetic(steps=2, settings={"trackers": [path]}).write(tmp_path / "run")
    edit(tmp_path / "run", f"UPDATE problems SET kind = '{path}'")
    rq.report(tmp_path / "run", tmp_path / "report.html")
    assert "antigravity" not in sys.modules


# links and pipes

PRECIOUS = "a file of the user's, elsewhere"
REPLY = GradedReply("item", "S0", 0, "reply", True, "", False, None, None)
WRITERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "lock": ("lock", lambda run: RunLock(run).__enter__()),
    "what people did": (
        "people.jsonl",
        lambda run: Inbox(run).add("Ada", "veto", {"problem": "p"}),
    ),
    "report": (".report.html.part", lambda run: rq.report(run, run / "report.html")),
    "measured replies": (
        "attempts.jsonl",
        lambda run: ReplyCache(run / "attempts.jsonl").append(
            EvalConfig("s", "v", "chat", 1, 0.0, 8), [REPLY]
        ),
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_in_a_run_does_not_lead_to_another_file(name: str, tmp_path: Path) -> None:
    file, write = WRITERS[name]
    Synthetic(steps=2).write(tmp_path / "run")
    other = tmp_path / "precious"
    other.write_text(PRECIOUS)
    (tmp_path / "run" / file).unlink(missing_ok=True)
    (tmp_path / "run" / file).symlink_to(other)
    if name == "report":  # it is replaced
        write(tmp_path / "run")
        assert not (tmp_path / "run" / "report.html").is_symlink()
    else:
        with pytest.raises(StorageError, match="a link, not a file"):
            write(tmp_path / "run")
    assert other.read_text() == PRECIOUS


def test_nothing_waits_for_a_pipe_in_a_run(tmp_path: Path) -> None:
    Synthetic(steps=2).write(tmp_path / "run")
    (tmp_path / "run" / "lock").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "run" / "lock")
    assert not is_held(tmp_path / "run")
    assert list_runs(tmp_path)[0].problem == ""
    with pytest.raises(StorageError, match="not a file"), RunLock(tmp_path / "run"):
        pass


@pytest.mark.parametrize("member", ["../../S0", "/tmp/S0", "", ".", "..", "S0/../..", "S0\n"])
def test_the_name_of_a_member_leads_nowhere_else(member: str) -> None:
    """It comes from a checkpoint, and is where its weights are read and written."""
    with pytest.raises(DataError, match="is no name of a member"):
        adapter_name(0, member)
    assert [adapter_name(0, own) for own in ("S2.30", "T2@30")] == ["0/S2.30", "0/T2@30"]


# the file itself

ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) AS step FROM n"
)
TRICKS = {
    "a view instead of a table": ["DROP TABLE marks", f"CREATE VIEW marks AS {ENDLESS}"],
    "a computed column": [
        "ALTER TABLE run RENAME TO old",
        "CREATE TABLE run (name TEXT, v TEXT, value TEXT AS (v || hex(zeroblob(9))) ) STRICT",
        "INSERT INTO run (name, v) SELECT name, value FROM old",
    ],
    "a table of anything": [
        "ALTER TABLE marks RENAME TO old",
        "CREATE TABLE marks (step)",
        "INSERT INTO marks VALUES ('many')",
    ],
    "a trigger": [f"CREATE TRIGGER more AFTER INSERT ON marks BEGIN {ENDLESS}; END"],
}


@pytest.mark.parametrize("name", TRICKS)
def test_a_ledger_with_sql_of_its_own_is_refused(name: str, tmp_path: Path) -> None:
    Synthetic(steps=2).write(tmp_path / "run")
    edit(tmp_path / "run", *TRICKS[name])
    (summary,) = list_runs(tmp_path)
    assert "would run SQL of its own" in summary.problem
    for opened in (rq.open_run, Ledger.open):
        with pytest.raises(ConfigError, match=r"is no ledger as redqueen writes it: \w+ would run"):
            opened(tmp_path / "run")


def test_views_of_the_user_s_own_do_not_matter(tmp_path: Path) -> None:
    Synthetic(steps=2).write(tmp_path / "run")
    edit(tmp_path / "run", "CREATE VIEW solved AS SELECT * FROM attempts WHERE verdict = 'correct'")
    with rq.open_run(tmp_path / "run") as reader:
        assert reader.steps == 2


def test_a_packed_ledger_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.sqlite.xz"
    with lzma.open(bomb, "wb", preset=1) as file:
        for _ in range(80):
            file.write(bytes(1 << 20))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(RedQueenError, match="more than a ledger of its size"):
        rq.open_run(bomb)
