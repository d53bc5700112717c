"""Packed ledgers: a run's records as one compressed file, read where it lies."""

import gzip
import json
import lzma
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

import redqueen as rq
from redqueen.cli.app import app
from redqueen.errors import ConfigError, DataError
from redqueen.ledger.store import digest

SETTINGS = [
    "steps=1", "population.teachers=1", "population.students=1", "tasks.kinds=['code_o']",
    "propose.prompts=1", "propose.samples=2", "propose.max_tokens=64", "solve.attempts=2",
    "solve.max_tokens=16", "evaluate.suite=", "sandbox.workers=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "played"
    with rq.Run.create(rq.load_config("pawn-cpu", SETTINGS), folder) as made:
        assert len(list(made)) == 1
    return folder


def call(*words: object) -> str:
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module", params=["xz", "gz"])
def packed(run: Path, request: pytest.FixtureRequest) -> Path:
    out = run.parent / "release" / f"played.sqlite.{request.param}"
    assert out.name in call("export", run, "--ledger", "--out", out)
    return out


def test_a_packed_ledger_has_the_same_records_in_a_fraction_of_the_bytes(
    run: Path, packed: Path
) -> None:
    assert packed.stat().st_size < (run / "run.sqlite").stat().st_size / 3
    with rq.open_run(run) as folder, rq.open_run(packed) as file:
        assert file.steps == 1 and list(file.proposals()) == list(folder.proposals()) != []
        assert file.digest() == folder.digest()
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            file.connection.execute("DELETE FROM proposals")


def test_commands_that_read_a_run_read_it(
    run: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "report: report.html" in call("report", packed)
    assert Path("report.html").stat().st_size > 50_000
    assert digest(run) in call("digest", packed)
    listed = json.loads(call("runs", packed.parent, "--json"))
    assert (str(packed), 1) in [(one["folder"], one["steps_done"]) for one in listed]
    compared = call("compare", f"one={packed}", f"two={run}")
    assert "one" in compared and "two" in compared


def test_open_says_what_is_in_it_and_unpacks_it(run: Path, packed: Path, tmp_path: Path) -> None:
    said = call("open", packed)
    assert "steps      1" in said and digest(run) in said and "redqueen report" in said
    facts = json.loads(call("open", packed, "--json", "--out", tmp_path / "unpacked"))
    assert facts["worlds"] == 1 and facts["digest"] == digest(run) == digest(tmp_path / "unpacked")
    with pytest.raises(ConfigError):
        call("open", packed, "--out", tmp_path / "unpacked")


def test_what_is_no_packed_ledger_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not a packed ledger.*needs no unpacking"):
        call("open", run)
    with pytest.raises(ConfigError, match=r"NAME.sqlite.xz or NAME.sqlite.gz"):
        call("export", run, "--ledger", "--out", tmp_path / "x.db")
    whole = lzma.compress((run / "run.sqlite").read_bytes())
    cases = {
        "cut.sqlite.xz": whole[: len(whole) // 2],
        "other.sqlite.gz": b"no gzip at all",
        "text.sqlite.gz": gzip.compress(b"no database " * 99),
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises((DataError, ConfigError), match=name.partition(".")[0]):
            rq.open_run(tmp_path / name)
