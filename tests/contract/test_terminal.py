"""What models and the authors of files wrote cannot steer the terminal that shows it."""

import io
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from redqueen.cli import app as command_line
from redqueen.cli.console import VisibleConsole
from tests.report.synthetic import Synthetic

CODES = "\x1b[2J\x1b]0;title\x07\x1b]8;;http://evil\x1b\\x\r\x08\x9b31m\u202e[link=http://evil][/]"
CLI = Path(command_line.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two worlds of a run with control codes wherever a ledger has a text."""
    root = tmp_path_factory.mktemp("runs")
    Synthetic(steps=3, worlds=2, thought=CODES, person="Ada").write(root / "run")
    with closing(sqlite3.connect(root / "run" / "run.sqlite")) as connection:
        for name in ("base", "created", "version", "ended", "ended/0"):
            connection.execute("INSERT OR REPLACE INTO run VALUES (?, ?)", (name, CODES))
        connection.execute("UPDATE worlds SET arm = ? || world", (CODES,))
        connection.execute("UPDATE births SET operator = ?, parents = ?", (CODES, '["\\u001b[1m"]'))
        connection.execute("UPDATE births SET member = member || ? WHERE member = 'S1'", (CODES,))
        connection.execute("UPDATE deaths SET reason = ?", (CODES,))
        connection.execute("UPDATE proposals SET rejection = ? WHERE problem IS NULL", (CODES,))
        connection.execute("UPDATE proposals SET detail = ?", (CODES,))
        connection.execute("UPDATE attempts SET detail = ?, text = ?", (CODES, CODES))
        connection.execute("UPDATE evals SET suite = ?", (CODES,))
        connection.commit()
    return root / "run"


@pytest.mark.parametrize(
    "words",
    [
        ["runs", ".."],
        ["lineage"],
        ["open"],
        ["compare"],
        ["report"],
        ["report", "--problem", "KEY"],
    ],
    ids=" ".join,
)
def test_no_control_code_of_a_run_reaches_the_terminal(
    words: list[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        (key,) = connection.execute("SELECT problem FROM problems").fetchone()
    command, *rest = [key if word == "KEY" else word for word in words]
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    arguments = [command, str(folder), *rest] if rest != [".."] else [command, str(folder.parent)]
    if command == "open":
        packed = str(tmp_path / "run.sqlite.xz")
        CliRunner().invoke(command_line.app, ["export", str(folder), "--ledger", "--out", packed])
        arguments = [command, packed]
    result = CliRunner().invoke(command_line.app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", result.output) == []
    assert "\\u001b[2J" in result.output or command in ("report", "compare"), result.output


def test_in_a_pipe_a_finding_is_a_line_without_blanks_at_its_end(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    words = ["report", str(folder), "--out", str(tmp_path / "page.html")]
    lines = CliRunner().invoke(command_line.app, words, catch_exceptions=False).output.splitlines()
    assert any(line.startswith("· 3 of 3 steps") and line.endswith("correct.") for line in lines)
    assert lines == [line.rstrip() for line in lines]


def test_whatever_is_printed_is_text_and_keeps_the_layout() -> None:
    out = io.StringIO()
    console = VisibleConsole(file=out, force_terminal=True, width=300, color_system=None)
    table = Table("name", title=CODES)
    table.add_row(CODES)
    table.add_row("short")
    for shown in (table, CODES, Text(CODES)):
        console.print(shown)
    text = out.getvalue()
    assert "\x1b" not in text and "\x9b" not in text and "[link=http://evil]" in text
    edges = {line.rindex("│") for line in text.splitlines() if line.startswith("│")}
    assert len(edges) == 1


def test_a_bug_that_quotes_a_file_shows_no_control_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError(CODES)

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    shown = capsys.readouterr().err
    assert ended.value.code == 1 and "\x1b" not in shown
    assert "Traceback" in shown and "\\u001b[2J" in shown


def test_no_command_prints_past_this() -> None:
    own = re.compile(r"(?<!class Visible)(?<!Visible)Console\(")
    assert [path.name for path in CLI.rglob("*.py") if own.search(path.read_text())] == []
