"""The command line as a user meets it, in processes of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from redqueen import __version__
from redqueen.cli.app import COMMANDS, app
from tests.e2e.processes import tiny

pytestmark = pytest.mark.slow  # every call is a process of its own

ROOT = Path(__file__).parents[2]


def redqueen(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "redqueen", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "150", **env},
    )


def write_lines(path: Path, *items: object) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def test_help_names_every_command_and_imports_none_of_them() -> None:
    done = redqueen("--help", PYTHONPROFILEIMPORTTIME="1")
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert "redqueen.cli.app" in done.stderr
    assert not any(module in done.stderr for module in ("torch", "pydantic", "redqueen.cli.run"))
    assert redqueen("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize("group", [(), ("bench",), ("kind",), ("pawn",), ("cluster",)])
def test_help_has_every_command_once_and_cuts_no_sentence(group: tuple[str, ...]) -> None:
    done = redqueen(*group, "--help", COLUMNS="80")
    commands = done.stdout.partition("--help ")[2]
    names = re.findall(r"^  (\w+)  +\w", commands, re.M)
    assert len(names) == len(set(names)) and "..." not in commands
    if not group:
        assert set(names) == set(COMMANDS)


@pytest.mark.slow
def test_every_command_says_what_it_does() -> None:
    def check(group: Any) -> None:
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            assert command.help, name
            if hasattr(command, "list_commands"):
                check(command)

    check(get_command(app))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("redqueen re", ["resume", "report", "retention"]),
        ("redqueen run --dr", ["--dry-run"]),
        ("redqueen run pawn-", ["pawn-cpu", "pawn-deduction", "pawn-gpu"]),
        ("redqueen study study-p", ["study-pawn"]),
        ("redqueen run --steps 9 pawn-g", ["pawn-gpu"]),  # it is a setting: said when it is called
        ("redqueen bench e", ["engine", "evolve"]),
        ("redqueen nothing ev", ["eval"]),
    ],
)
def test_a_shell_completes_commands_options_and_recipes(words: str, found: list[str]) -> None:
    assert complete(words) == found


@pytest.mark.parametrize("group", ["", "bench "])
def test_the_name_of_a_command_is_completed_without_torch(group: str) -> None:
    after = "; assert sys.modules.keys().isdisjoint(('numpy', 'torch'))"
    assert len(complete(f"redqueen {group}", after)) > 2


def test_ctrl_c_while_a_shell_completes_a_line_prints_nothing() -> None:
    code = """import os, signal, sys
sys.argv = ['redqueen']
from redqueen.cli import app
app.app = lambda: os.kill(os.getpid(), signal.SIGINT)
app.main()"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "_REDQUEEN_COMPLETE": "complete_zsh"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def complete(words: str, after: str = "") -> list[str]:
    """What a shell is told, in a process of its own; it must print no error into the line."""
    completion = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = f"""import sys; sys.argv = ['redqueen']; from redqueen.cli.app import main
try: main()
finally: pass{after}"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **completion, "_REDQUEEN_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.stdout.split()


def test_an_option_that_was_renamed_says_its_new_name() -> None:
    for words, new in (
        (("bench", "engine", "--rows-in-flight", "8"), "--max-num-seqs"),
        (("eval", "pawn", "--pack=chat"), "--prompt-format"),
    ):
        done = redqueen(*words)
        assert (done.returncode, f"is called {new} now" in done.stderr) == (2, True)


def test_a_command_that_does_not_exist_names_the_nearest_one() -> None:
    done = redqueen("reprot")
    assert (done.returncode, "Did you mean 'report'?" in done.stderr) == (2, True)


@pytest.mark.slow
def test_sandbox_run_writes_one_outcome_a_line_in_order(tmp_path: Path) -> None:
    cases = write_lines(
        tmp_path / "cases.jsonl",
        {
            "name": "slow",
            "program": "def f(x):\n    for i in range(300000): x += i\n    return x",
            "input": "0",
            "extra": 1,
        },
        {"name": "ok", "program": "def f(x, y): return {y: x}", "input": "1, 'a'"},
        {"name": "loop", "program": "def f(x):\n    while True: pass", "input": "1"},
        {"name": "chance", "program": "def f(x): return hash('a')", "input": "1"},
        {"name": "escape", "program": "def f(x): return '\\x1b[2J'", "input": "1"},
    )
    done = redqueen("sandbox", "run", cases, "--timeout-s", "0.2")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["name"], row["outcome"], row.get("value")) for row in rows] == [
        ("slow", "value", "44999850000"), ("ok", "value", "{'a': 1}"), ("loop", "timeout", None), ("chance", "unstable", None), ("escape", "value", "'\\x1b[2J'"),
    ]  # fmt: skip
    assert set(rows[0]) == {"name", "outcome", "value", "detail", "cpu_s"}
    out = tmp_path / "results.jsonl"
    assert (
        redqueen(
            "sandbox",
            "run",
            cases,
            "--out",
            out,
            "--timeout-s",
            "0.2",
            "--without",
            "landlock",
            "--without",
            "namespaces",
        ).stdout
        == ""
    )
    assert [json.loads(line)["outcome"] for line in out.read_text().splitlines()] == [
        row["outcome"] for row in rows
    ]


@pytest.mark.slow
def test_sandbox_run_takes_expressions_on_request(tmp_path: Path) -> None:
    cases = write_lines(
        tmp_path / "c.jsonl", {"name": "a", "program": "def f(d): return d", "input": "dict(a=0)"}
    )
    assert '"unsupported"' in redqueen("sandbox", "run", cases).stdout
    assert "{'a': 0}" in redqueen("sandbox", "run", cases, "--input-as", "expression").stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        ("{bad", "line 1: not JSON"),
        ('{"name": "a", "program": "x"}', "line 1: the field 'input' is missing"),
        ('{"name": "a", "program": 3, "input": "1"}', "the field 'program' is missing or not text"),
        ("[1]", "expected an object"),
    ],
)
def test_a_bad_case_file_is_named_with_the_line(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "cases.jsonl"
    if content is not None:
        path.write_text(content)
    done = redqueen("sandbox", "run", path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_output_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    cases = write_lines(
        tmp_path / "c.jsonl", {"name": "a", "program": "def f(d): return d", "input": "1"}
    )
    done = redqueen("sandbox", "run", cases, "--out", tmp_path / "no" / "folder")
    assert (done.returncode, "cannot write" in done.stderr) == (2, True)


@pytest.mark.slow
def test_verify_prints_problems_and_rejections_with_reasons(tmp_path: Path) -> None:
    out = tmp_path / "verdicts.jsonl"
    done = redqueen("verify", ROOT / "examples" / "proposals.jsonl", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "[7, -7, 2, -9]" in done.stdout
    assert "3 of 13 proposals are problems" in done.stdout
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["valid"] for row in rows[:3]] == [True] * 3
    assert [row["reason"] for row in rows[3:]] == [
        "duplicate", "unstable", "forbidden_import", "timeout", "forbidden_name", "unsupported", "malformed", "too_long", "malformed", "error",
    ]  # fmt: skip
    assert rows[0]["features"]["cyclomatic"] == 3
    assert len(rows[2]["gold"]) == 10


def test_verify_names_an_unknown_kind_and_a_wrong_setting(tmp_path: Path) -> None:
    bad = write_lines(tmp_path / "p.jsonl", {"kind": "code_z", "text": "x"})
    done = redqueen("verify", bad)
    assert (done.returncode, "Did you mean 'code_" in done.stderr) == (2, True)
    done = redqueen("verify", bad, "--set", "verify.memory=3")
    assert (done.returncode, "Did you mean 'memory_mb'" in done.stderr) == (2, True)


def test_verify_reads_the_compact_format(tmp_path: Path) -> None:
    text = ">>program\ndef f(a):\n    return a + 1\n>>input\n4\n>>end"
    done = redqueen(
        "verify",
        write_lines(tmp_path / "p.jsonl", {"kind": "code_i", "text": text}),
        "--prompt-format",
        "compact",
        "--json",
    )
    row = json.loads(done.stdout)
    assert (row["valid"], row["gold"]) == (True, ["5"])


@pytest.mark.slow
def test_doctor_says_what_this_machine_can_do(tmp_path: Path) -> None:
    (tmp_path / "cruxeval.jsonl").write_text("")
    done = redqueen("doctor", "--json", REDQUEEN_DATA=str(tmp_path))
    report = json.loads(done.stdout)
    found = {(item["topic"], item["name"]): item for item in report["findings"]}
    assert report["ready"] is (done.returncode == 0) is True
    assert found["sandbox", "seccomp"]["ok"]
    assert found["sandbox", "self-test"]["ok"]
    assert found["data", "benchmarks"]["detail"].startswith("1 of ")
    assert found["torch", "torch"]["ok"]
    assert found["base", "pawn"]["ok"]
    assert found["base", "suites"]["detail"].startswith("2,400 ")


@pytest.mark.slow
def test_bench_sandbox_gives_rates_and_ratios_in_one_run() -> None:
    result = json.loads(
        redqueen("bench", "sandbox", "--programs", "40", "--soak", "100", "--json").stdout
    )
    assert set(result["ratios"]) == {
        "sandbox_over_fresh_interpreter",
        "sandbox_over_exec",
        "lost_to_determinism_check",
        "lost_to_5_percent_endless",
    }
    assert all(rate > 0 for rate in result["programs_per_s"].values())
    assert result["other_programs_cores"] >= 0
    assert result["soak"]["after"]["processes"] == result["soak"]["before"]["processes"]


@pytest.mark.slow
def test_unsafe_is_shown(tmp_path: Path) -> None:
    cases = write_lines(
        tmp_path / "c.jsonl", {"name": "a", "program": "def f(d): return d", "input": "1"}
    )
    done = redqueen("sandbox", "run", cases, "--sandbox", "unsafe")
    assert done.returncode == 0
    assert "unsafe" in done.stderr
    done = redqueen(*tiny(tmp_path / "run", "steps=1", "sandbox.unsafe=true"), "--device", "cpu")
    assert done.returncode == 0 and "unsafe mode" in done.stderr
