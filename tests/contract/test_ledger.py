"""The ledger holds whole steps only, is read while it is written, and says what is wrong with a
file that is none."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from redqueen.errors import ConfigError, StorageError
from redqueen.ledger.lock import RunLock, is_held
from redqueen.ledger.runs import list_runs
from redqueen.ledger.store import FILE, Ledger, digest, last_step, open_to_read
from redqueen.ledger.tables import TableShape, table_shapes

ABOUT = {
    "config": "seed = 1\n",
    "base": "pawn",
    "steps": "20",
    "created": "today",
    "machine": "mine",
    "version": "0.1",
}
WORLDS = [{"world": 0, "arm": "run", "seed": 1, "config": {"seed": 1}}]
NOT_DIGESTED = ("timings", "placements")


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger.create(tmp_path / "run", ABOUT, WORLDS) as ledger:
        yield ledger


def types(folder: Path, table: TableShape) -> dict[str, str]:
    with contextlib.closing(open_to_read(folder)) as connection:
        return {
            row["name"]: row["type"]
            for row in connection.execute(f"PRAGMA table_info({table.name})")
        }


def whole_step(folder: Path, step: int) -> dict[str, list[dict[str, Any]]]:
    """Two rows for each table that belongs to steps, every column filled."""
    found = {}
    for table in table_shapes().values():
        if table.has_steps and table.name != "marks":
            kinds = types(folder, table)
            values = [
                {
                    "TEXT": f"{table.name} {number} of {step}",
                    "INTEGER": step + number,
                    "REAL": (step + number) / 7,
                }
                for number in range(2)
            ]
            found[table.name] = [
                {**{name: value[kinds[name]] for name in table.columns}, "step": step}
                for value in values
            ]
    return found


def play(ledger: Ledger, first: int, last: int) -> None:
    for step in range(first, last + 1):
        ledger.write(step, whole_step(ledger.folder, step))


def test_a_new_ledger_knows_what_it_was_made_with(ledger: Ledger) -> None:
    assert ledger.about == {**ABOUT, "schema": "5"}
    assert ledger.last_step() == -1
    with contextlib.closing(open_to_read(ledger.folder)) as connection:
        assert [dict(row) for row in connection.execute("SELECT * FROM worlds")] == [
            {**WORLDS[0], "config": '{"seed": 1}'}
        ]
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert all(
            "STRICT" in row["sql"]
            for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        )


def test_a_step_is_read_back_as_it_was_written(ledger: Ledger) -> None:
    ledger.write(0, {})
    ledger.write(
        1, {"metrics": [{"world": 0, "name": "solve/rate", "value": 0.1 + 0.2}], "births": []}
    )
    ledger.close()
    with Ledger.open(ledger.folder) as again:
        assert again.last_step() == 1
        assert again.about == ledger.about
    with contextlib.closing(open_to_read(ledger.folder)) as connection:
        assert [tuple(row) for row in connection.execute("SELECT * FROM metrics")] == [
            (0, 1, "solve/rate", 0.1 + 0.2)
        ]


def test_whatever_text_a_model_writes_can_be_stored(ledger: Ledger) -> None:
    texts = ["\ud800 alone", "a\0b", "é ∀ 🂡", ""]
    rows = [
        {"world": 0, "step": 0, "member": str(number), "reason": text, "mu": 1, "sigma": 1}
        for number, text in enumerate(texts)
    ]
    ledger.write(0, {"deaths": rows})
    with contextlib.closing(open_to_read(ledger.folder)) as connection:
        assert [
            row["reason"] for row in connection.execute("SELECT reason FROM deaths ORDER BY member")
        ] == ["\\ud800 alone", *texts[1:]]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (
            {"world": 0, "name": "a/b", "valu": 1.0},
            "unknown column of the table metrics 'valu'. Did you mean 'value'?",
        ),
        ({"world": 0, "name": "a/b"}, "NOT NULL constraint failed: metrics.value"),
        ({"world": 0, "value": 1.0}, "a row of the table metrics has no name"),
        (
            {"world": 0, "name": "a/b", "value": float("nan")},
            "metrics.value is NaN",
        ),
        (
            {"world": 0, "name": "a/b", "value": "much"},
            "cannot store TEXT value in REAL column metrics.value",
        ),
        ({"world": 0, "name": "whole/1", "value": 1.0}, "UNIQUE constraint failed"),
        (
            {"world": 0, "step": 3, "name": "a/b", "value": 1.0},
            "a row of step 3 in the table metrics of step 0",
        ),
        ({"world": 2**64, "name": "a/b", "value": 1.0}, "too large"),
    ],
)
def test_a_row_that_does_not_fit_fails_the_whole_step(
    row: dict[str, Any], complaint: str, ledger: Ledger
) -> None:
    right = {"world": 0, "name": "whole/1", "value": 1.0}
    with pytest.raises((ValueError, sqlite3.IntegrityError, OverflowError), match=complaint):
        ledger.write(0, {"metrics": [right, row]})
    assert ledger.last_step() == -1
    with contextlib.closing(open_to_read(ledger.folder)) as connection:
        assert connection.execute("SELECT count(*) FROM metrics").fetchone()[0] == 0
    ledger.write(0, {"metrics": [right]})


def test_steps_come_once_and_one_after_another(ledger: Ledger) -> None:
    ledger.write(0, {})
    with pytest.raises(ValueError, match="step 0 is already in the ledger"):
        ledger.write(0, {})
    with pytest.raises(ValueError, match="step 2 leaves a gap: the last complete step is 0"):
        ledger.write(2, {})
    with pytest.raises(ValueError, match=r"unknown table 'metric'\. Did you mean 'metrics'\?"):
        ledger.write(1, {"metric": []})
    for name in ("run", "worlds", "marks"):
        with pytest.raises(ValueError, match="do not belong to a step"):
            ledger.write(1, {name: [{"step": 1}]})


def test_rows_outside_a_step_replace_those_with_the_same_key(ledger: Ledger) -> None:
    row = {
        "world": 0,
        "step": 0,
        "suite": "heldout",
        "subject": "base",
        "item": "1",
        "kind": "code_o",
        "tier": 1,
        "sample": 0,
    }
    ledger.add("evals", [{**row, "correct": 0}])
    ledger.add("evals", [{**row, "correct": 1}, {**row, "sample": 1, "correct": 0}])
    ledger.add("run", [{"name": "steps", "value": "30"}])
    assert ledger.about["steps"] == "30"
    with contextlib.closing(open_to_read(ledger.folder)) as connection:
        assert [
            row["correct"]
            for row in connection.execute("SELECT correct FROM evals ORDER BY sample")
        ] == [1, 0]
    with pytest.raises(ValueError, match=r"only write\(\) marks"):
        ledger.add("marks", [{"step": 5}])


def test_steps_taken_back_and_played_again_give_the_same_digest(ledger: Ledger) -> None:
    play(ledger, 0, 3)
    expected = digest(ledger.folder)
    ledger.truncate(1)
    assert ledger.last_step() == 1
    with contextlib.closing(open_to_read(ledger.folder)) as connection:
        for table in table_shapes().values():
            if table.has_steps:
                assert (
                    connection.execute(f"SELECT max(step) FROM {table.name}").fetchone()[0] == 1
                ), table.name
    assert digest(ledger.folder) != expected
    play(ledger, 2, 3)
    assert digest(ledger.folder) == expected
    ledger.truncate(-1)
    assert ledger.last_step() == -1


def test_equal_records_have_equal_digests_whatever_the_machine_the_day_the_time_and_the_order(
    ledger: Ledger, tmp_path: Path
) -> None:
    play(ledger, 0, 1)
    other_about = {
        **dict(reversed(ABOUT.items())),
        "created": "tomorrow",
        "machine": "yours",
        "version": "0.2",
    }
    with Ledger.create(tmp_path / "other", other_about, WORLDS) as other:
        for step in range(2):
            rows = {
                name: rows[::-1] for name, rows in reversed(whole_step(other.folder, step).items())
            }
            rows["timings"] = [{"stage": "solve", "seconds": 9.0, "waited_s": 1.0}]
            rows["metrics"].append({"world": 0, "name": "time/solve_s", "value": 9.0})
            other.write(step, rows)
    assert digest(tmp_path / "other") == digest(ledger.folder)
    with Ledger.create(tmp_path / "third", {**ABOUT, "config": "seed = 2\n"}, WORLDS) as third:
        play(third, 0, 1)
    assert digest(tmp_path / "third") != digest(ledger.folder)


@pytest.mark.slow
def test_any_changed_value_changes_the_digest(ledger: Ledger, tmp_path: Path) -> None:
    play(ledger, 0, 0)
    ledger.close()
    before = digest(ledger.folder)
    changes = {"TEXT": "|| '.'", "INTEGER": "+ 1000", "REAL": "+ 1e-12"}
    changed = tmp_path / "changed"
    changed.mkdir()
    for table in table_shapes().values():
        for name, kind in types(ledger.folder, table).items():
            shutil.copy(ledger.folder / FILE, changed)
            where = (
                "name = 'config'"
                if table.name == "run"
                else f"rowid = (SELECT min(rowid) FROM {table.name})"
            )
            with contextlib.closing(
                sqlite3.connect(changed / FILE, isolation_level=None)
            ) as connection:
                assert (
                    connection.execute(
                        f"UPDATE {table.name} SET {name} = {name} {changes[kind]} WHERE {where}"
                    ).rowcount
                    == 1
                )
            assert (digest(changed) == before) == (table.name in NOT_DIGESTED), (
                f"{table.name}.{name}"
            )


def test_text_that_moves_from_one_column_to_the_next_changes_the_digest(
    ledger: Ledger, tmp_path: Path
) -> None:
    row = {
        "world": 0,
        "member": "T0",
        "role": "teacher",
        "slot": 0,
        "parents": "",
        "operator": "new",
        "settings": "",
        "mu": 1,
        "sigma": 1,
    }
    ledger.write(0, {"births": [row]})
    with Ledger.create(tmp_path / "other", ABOUT, WORLDS) as other:
        other.write(0, {"births": [{**row, "operator": "ne", "settings": "w"}]})
    assert digest(ledger.folder) != digest(tmp_path / "other")


def test_a_reader_sees_whole_steps_and_the_writer_does_not_wait_for_it(ledger: Ledger) -> None:
    ledger.write(0, {})
    rows = [{"world": 0, "name": f"a/{number}", "value": 1.0} for number in range(200)]
    seen: set[int] = set()
    done = threading.Event()

    def watch() -> None:
        with contextlib.closing(open_to_read(ledger.folder)) as connection:
            while not done.is_set():
                connection.execute("BEGIN")
                step = last_step(connection)
                counts = dict(
                    connection.execute(
                        "SELECT step, count(*) FROM metrics GROUP BY step"
                    ).fetchall()
                )
                connection.execute("COMMIT")
                assert counts == dict.fromkeys(range(1, step + 1), 200)
                seen.add(step)

    with ThreadPoolExecutor(1) as pool, contextlib.closing(open_to_read(ledger.folder)) as idle:
        idle.execute("BEGIN")
        assert last_step(idle) == 0  # a reader that never lets go of what it sees
        watcher = pool.submit(watch)
        try:
            for step in range(1, 60):
                ledger.write(step, {"metrics": rows})
            ledger.truncate(58)
        finally:
            done.set()
        watcher.result()
        assert last_step(idle) == 0
    assert len(seen) > 1


def test_a_reader_cannot_write(ledger: Ledger) -> None:
    with (
        contextlib.closing(open_to_read(ledger.folder)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("DELETE FROM run")


def test_a_folder_with_a_run_is_refused_for_a_new_one_and_left_as_it_was(ledger: Ledger) -> None:
    ledger.write(0, {})
    with pytest.raises(
        ConfigError, match=rf"--out, or continue it with: redqueen resume {ledger.folder}"
    ):
        Ledger.create(ledger.folder, ABOUT, WORLDS)
    assert ledger.last_step() == 0


@pytest.mark.parametrize("remains", ["run.sqlite-wal", "checkpoints/000003"])
def test_what_is_left_of_another_run_is_not_mistaken_for_a_part_of_a_new_one(
    remains: str, tmp_path: Path
) -> None:
    (tmp_path / remains).mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"the remains of another run .{remains}"):
        Ledger.create(tmp_path, ABOUT, WORLDS)
    assert not (tmp_path / FILE).exists()


def test_a_run_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file is not a folder"):
        Ledger.create(tmp_path / "file/run", ABOUT, WORLDS)
    with pytest.raises(ValueError, match="unknown column of the table worlds"):
        Ledger.create(tmp_path / "run", ABOUT, [{**WORLDS[0], "sead": 1}])
    assert list((tmp_path / "run").iterdir()) == []


def test_a_file_that_is_no_ledger_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    for opened in (open_to_read, Ledger.open):
        with pytest.raises(ConfigError, match=rf"no run in {tmp_path}"):
            opened(tmp_path)
    path = tmp_path / FILE
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE cards (name TEXT)")
    foreign = [path.read_bytes(), b"not a database at all" * 100, b""]
    for content in foreign:
        path.write_bytes(content)
        for opened in (open_to_read, Ledger.open):
            with pytest.raises(ConfigError, match="is not the ledger of a run"):
                opened(tmp_path)
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("schema", "words"),
    [("0", "too old to read.*Use redqueen 0.1,"), ("6", "newer.*Install redqueen 0.1 or later")],
)
def test_another_schema_is_named_with_what_to_do(schema: str, words: str, ledger: Ledger) -> None:
    ledger.add("run", [{"name": "schema", "value": schema}])
    ledger.close()
    for opened in (open_to_read, Ledger.open, digest):
        with pytest.raises(
            ConfigError, match=f"has schema {schema}, this version writes schema 5: it is {words}"
        ):
            opened(ledger.folder)
    assert list_runs(ledger.folder.parent)[0].problem.endswith("Nothing was changed.")


def test_a_damaged_ledger_is_refused(ledger: Ledger) -> None:
    play(ledger, 0, 20)
    ledger.close()
    path = ledger.folder / FILE
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)
    with pytest.raises(StorageError, match="is damaged"):
        Ledger.open(ledger.folder)


def test_a_ledger_that_may_not_grow_keeps_what_it_has(tmp_path: Path) -> None:
    code = """
    import resource, sys
    from pathlib import Path
    from redqueen.errors import StorageError
    from redqueen.ledger.store import Ledger, digest
    folder = Path(sys.argv[1])
    ledger = Ledger.create(folder, {}, [])
    ledger.write(0, {})
    before = digest(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    rows = {"deaths": [{"world": 0, "member": str(n), "reason": "x" * 1000, "mu": 1, "sigma": 1} for n in range(1000)]}
    try:
        ledger.write(1, rows)
    except StorageError as error:
        print(error)
    print(ledger.last_step(), digest(folder) == before)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ledger.write(1, rows)
    print(ledger.last_step())
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.stdout.startswith(f"step 1 could not be written to {tmp_path / FILE}"), out.stderr
    assert (
        f"everything before it is intact. Free some space or repair the disk, then continue with: redqueen resume {tmp_path}"
        in out.stdout
    )
    assert out.stdout.endswith("0 True\n1\n")


def test_a_second_writer_is_refused_and_told_who_the_first_is_until_that_dies(
    tmp_path: Path,
) -> None:
    code = "import sys, time; from pathlib import Path; from redqueen.ledger.lock import RunLock\nwith RunLock(Path(sys.argv[1])): print('ready', flush=True); time.sleep(60)"
    first = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    assert first.stdout is not None
    with first.stdout:
        assert first.stdout.readline() == b"ready\n"
        assert is_held(tmp_path)
        with (
            pytest.raises(ConfigError, match=f"is locked by process {first.pid}"),
            RunLock(tmp_path),
        ):
            pass
        first.kill()
        first.wait()
    assert not is_held(tmp_path)
    with RunLock(tmp_path):
        assert is_held(tmp_path)


def test_a_lock_of_another_machine_says_so(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        (tmp_path / "lock").write_text('{"pid": 7, "boot": "another", "host": "far"}')
        with (
            pytest.raises(ConfigError, match=r"process 7 on far \(another machine"),
            RunLock(tmp_path),
        ):
            pass


def test_a_process_forked_from_the_run_does_not_keep_its_lock() -> None:
    code = """
    import os, sys, tempfile, time
    from pathlib import Path
    from redqueen.ledger.lock import RunLock, is_held
    folder = Path(tempfile.mkdtemp())
    with RunLock(folder):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        print(is_held(folder))
    print(is_held(folder))
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert out.stdout == "True\nFalse\n"


def test_runs_are_listed_with_how_far_they_are_and_who_is_at_them(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "nowhere") == []
    for name, created in (("b", "1"), ("a", "2")):
        with Ledger.create(
            tmp_path / name, {"base": "pawn", "steps": "20", "created": created}, WORLDS
        ) as ledger:
            for step in range(3):
                ledger.write(step, {})
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / FILE).write_text("nonsense" * 100)
    (tmp_path / "empty").mkdir()
    with RunLock(tmp_path / "a"):
        runs = {run.folder.name: run for run in list_runs(tmp_path)}
    assert list(runs) == ["c", "b", "a"]
    assert (
        runs["a"].steps_done,
        runs["a"].steps_wanted,
        runs["a"].base,
        runs["a"].created,
        runs["a"].active,
    ) == (2, 20, "pawn", "2", True)
    assert not runs["b"].active
    assert "is not the ledger" in runs["c"].problem
    assert [run.folder for run in list_runs(tmp_path / "a")] == [tmp_path / "a"]


def test_a_copy_of_a_run_folder_is_a_run(ledger: Ledger, tmp_path: Path) -> None:
    play(ledger, 0, 1)
    ledger.close()
    shutil.copytree(ledger.folder, tmp_path / "copy")
    assert digest(tmp_path / "copy") == digest(ledger.folder)


def test_the_questions_in_the_documentation_can_be_asked(ledger: Ledger) -> None:
    text = (Path(__file__).parents[2] / "docs/ledger.md").read_text()
    questions = [
        question
        for question in text.partition("```sql")[2].partition("```")[0].split(";")
        if question.strip()
    ]
    assert len(questions) == 2
    with contextlib.closing(open_to_read(ledger.folder)) as connection:
        for question in questions:
            assert connection.execute(question).fetchall() == []
