"""Invented problems against benchmark items: what is found, and what is not."""

import ast
import json
from pathlib import Path

from typer.testing import CliRunner

from redqueen.benchmarks.suite import Item
from redqueen.cli.app import app
from redqueen.records import content_key
from redqueen.report.contamination import Invented, compare_problems, invented_problems
from redqueen.sandbox.inspection.canonical import canonical_program
from tests.contract.benchmark_items import CRUXEVAL, HUMANEVAL
from tests.report.synthetic import Synthetic

ITEMS = [
    *(Item(str(row["id"]), row) for row in CRUXEVAL),
    *(Item(str(row["task_id"]), row) for row in HUMANEVAL),
]


def invented(program: str, key: str = "p") -> Invented:
    return Invented(key, content_key(canonical_program(ast.parse(program))), program)


def test_a_program_of_a_benchmark_is_found_under_other_names_and_without_its_docstring() -> None:
    renamed = invented("def f(number):\n    return 3 * number\n")
    (match,) = compare_problems("own", [renamed], ITEMS).matches
    assert (match.item, match.same_program) == ("Own/0", True)
    result = compare_problems("own", [invented("def f(x):\n    return 5 * x - 1\n")], ITEMS)
    assert not result.matches and result.problems == 1


def test_a_long_piece_of_an_items_text_is_found_and_a_short_one_is_not() -> None:
    words = [f"w{number}" for number in range(40)]
    item = Item("long", {"question": " ".join(words), "answer": ["other"]})
    whole = Invented("whole", "", "so: " + " ".join(words[5:25]))
    half = Invented("half", "", " ".join([*words[5:25], *(f"x{number}" for number in range(20))]))
    short = Invented("short", "", " ".join(words[:12]))
    result = compare_problems("own", [half, short, whole], [item])
    assert [match.problem for match in result.matches] == ["whole", "half"]
    assert result.matches[0].shared > 0.7 > 0.4 > result.matches[1].shared > 0.2
    assert (result.same_program, result.common_text) == (0, 2)


def test_hostile_texts_are_only_compared() -> None:
    texts = ["(" * 100_000, "def f(:\n" * 1000, "\x00\ud800 " * 50, "a" * 1_000_000]
    problems = [Invented(str(n), "", text) for n, text in enumerate(texts)]
    assert not compare_problems("own", problems, ITEMS).matches


def test_the_command_finds_what_a_run_has_of_a_benchmark(tmp_path: Path) -> None:
    Synthetic(steps=2, evaluate_every=99).write(tmp_path / "run")
    problems = invented_problems(tmp_path / "run")
    assert problems and all("def f" in problem.text for problem in problems)
    copied = {"id": "0", "code": problems[0].text, "input": "1", "output": "1"}
    (tmp_path / "cruxeval.jsonl").write_text(json.dumps(copied) + "\n")
    words = ["contamination", str(tmp_path / "run"), "--suite", "cruxeval-o"]
    result = CliRunner().invoke(app, [*words, "--data", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["cruxeval-o"]
    assert found["items"] == 1 and found["common_text"] >= 1
    assert found["matches"][0]["shared"] == 1.0
    shown = CliRunner().invoke(app, [*words, "--data", str(tmp_path)])
    assert shown.exit_code == 0 and "13 words in common" in shown.output
