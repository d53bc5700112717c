"""A file of problems is a suite, by its name or in one of your own; `redqueen kind check` plays a kind
on written texts."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

import redqueen
from redqueen.benchmarks.suite import CHAT, Graders
from redqueen.cli.kind import app
from redqueen.config.stages import VerifyConfig
from redqueen.errors import ConfigError, DataError
from redqueen.evaluate.problem_file import ProblemFile
from redqueen.evaluate.suites import expand_names, load_suite
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks import RunRules, load_kind
from redqueen.tasks.kind import problem_fields
from redqueen.tasks.logic.generator import random_puzzle

ARITHMETIC = "tests.outside.arithmetic:Arithmetic"


@pytest.fixture
def puzzles(tmp_path: Path) -> Path:
    """As `redqueen verify --out` writes them."""
    rng, rules, logic = Random(0), RunRules.of(VerifyConfig()), load_kind("logic")
    problems = [
        logic.verified(random_puzzle(rng, 3), None, rules).problem("logic") for _ in range(4)
    ]
    path = tmp_path / "puzzles.jsonl"
    lines = [{"valid": True, **problem_fields(problem)} for problem in problems]
    write(path, *lines, {"kind": "logic", "valid": False, "reason": "trivial"})
    return path


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_of_problems_is_a_suite_by_its_name(puzzles: Path, pool: SandboxPool) -> None:
    assert expand_names([str(puzzles)]) == [str(puzzles)]
    suite = load_suite(str(puzzles))
    items = suite.items(None, None)
    assert (suite.name, len(items), items[0].kind) == ("puzzles", 4, "logic")
    assert [item.id for item in suite.items(None, 2)] == [items[0].id, items[2].id]
    prompt = suite.prompt(items[0], CHAT)
    assert prompt.system is not None and "logic puzzles" in prompt.system
    golds = [f"<answer>{item.fields['problem'].gold[0]}</answer>" for item in items]
    graders = Graders(pool, None)  # type: ignore[arg-type]  # no maths here
    assert all(one.correct for one in suite.grade(items, golds, CHAT, graders))
    assert not any(one.correct for one in suite.grade(items, golds[1:] + golds[:1], CHAT, graders))
    assert suite.vote_key(items[0], golds[0], CHAT) == items[0].fields["problem"].gold[0]
    version = suite.prompt_version(CHAT)
    write(puzzles, *(json.loads(line) for line in puzzles.read_text().splitlines()[:1]))
    assert suite.prompt_version(CHAT) != version


def test_a_problem_that_a_file_has_twice_is_one_item(puzzles: Path) -> None:
    once = load_suite(str(puzzles)).items(None, None)
    puzzles.write_text(puzzles.read_text() * 2)
    assert load_suite(str(puzzles)).items(None, None) == once
    first, second, *_ = (json.loads(line) for line in puzzles.read_text().splitlines())
    turned = {**first["payload"], "constraints": first["payload"]["constraints"][::-1]}
    write(puzzles, first, {**first, "payload": turned})
    assert len(load_suite(str(puzzles)).items(None, None)) == 1, "its answer is the same"
    write(puzzles, first, {**second, "key": first["key"]})
    with pytest.raises(DataError, match="line 2: another problem has the key"):
        load_suite(str(puzzles)).items(None, None)


@pytest.mark.slow
def test_a_base_is_evaluated_on_a_file(puzzles: Path) -> None:
    result = redqueen.evaluate("pawn", str(puzzles), device="cpu", max_tokens=16)
    assert (result.n, result.config.suite) == (4, "puzzles")


def test_kinds_of_your_own_come_by_a_suite_of_your_own(tmp_path: Path) -> None:
    row = {"kind": ARITHMETIC, "payload": {"a": 3, "operator": "+", "b": 4}, "gold": ["7"]}
    path = write(tmp_path / "sums.jsonl", row)
    (item,) = ProblemFile(path, kinds=[ARITHMETIC]).items(None, None)
    assert item.fields["problem"].gold == ("7",)
    with pytest.raises(DataError, match=r"line 1: unknown task kind .* ProblemFile\(path, kinds"):
        load_suite(str(path)).items(None, None)


def test_mistakes_in_a_file_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    good = {"variables": {"a": "1..2"}, "constraints": [["=", "a", 1]]}
    for row, what in (
        ({"kind": "logic", **good}, "no gold answer"),
        ({"kind": "logic", **good, "gold": [1]}, "no gold answer"),
        ({"kind": "logic", "gold": ["{}"], "variables": 3}, "expected"),
        ({"kind": "logic", "valid": False}, "has no problem"),
    ):
        write(path, row)
        with pytest.raises(DataError, match=what):
            load_suite(str(path)).items(None, None)
    with pytest.raises(ConfigError, match="unknown suite"):
        expand_names(["puzzles"])


def test_a_kind_is_played_on_written_texts(tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    line = {
        "proposal": ">>sum\n17 * 25\n>>end",
        "correct": [">>result\n425\n>>end"],
        "wrong": ["?"],
    }
    arguments = ["check", ARITHMETIC, "--texts", str(texts), "--prompt-format", "compact"]
    write(texts, line, {"proposal": ">>sum\n1 + 1\n>>end"})
    done = CliRunner().invoke(app, [*arguments, "--prompts"])
    assert done.exit_code == 0, done.output
    assert "rejected as trivial" in done.output and ">>teacher arithmetic" in done.output
    assert "1 problems of 2 proposals; 0 not as expected" in done.output
    write(texts, {**line, "wrong": [">>result\n425\n>>end"]}, {"proposal": ">>sum\n8 + 8\n>>end"})
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1 and "2 not as expected" in done.output
    listed = CliRunner().invoke(app, ["list"])
    assert "sql_q" in listed.output and "predict the output" in listed.output
