"""`redqueen eval` on a part of its suites: spread over kinds and tiers, printed as tables, told
apart from what was malformed."""

import contextlib
import io
import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redqueen.cli.benchmarks import BenchmarkOptions
from redqueen.cli.evaluate import EvalOptions, run
from redqueen.evaluate.heldout import HeldOut, spread
from redqueen.pawn.heldout import load_suite, shipped_score
from redqueen.tasks import KINDS
from redqueen.tasks.kind import Request
from redqueen.tasks.prompts import Prompt, load_prompt_format
from redqueen.tasks.prompts.chat import ChatFormat

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("suite", ["heldout", "heldout-quick"])
def test_a_part_of_a_suite_has_its_share_of_every_kind_and_tier(suite: str) -> None:
    part = spread(load_suite(suite), 24)
    assert len({(item.problem.kind, item.tier) for item in part}) == 24
    assert Counter(item.problem.kind for item in spread(load_suite(suite), 6)) == dict.fromkeys(
        KINDS, 2
    )
    assert len({item.problem.key for item in spread(load_suite(suite), 101)}) == 101
    assert spread(load_suite(suite), None) == spread(load_suite(suite), 9999) == load_suite(suite)


def quick(limit: int, *, max_tokens: int | None = None, **others: Any) -> dict[str, dict[str, Any]]:
    """Figures of Pawn on a part of the quick suite, cell by cell."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        run(
            "pawn",
            ["heldout-quick"],
            EvalOptions(
                limit=limit,
                max_tokens=max_tokens,
                device="cpu",
                as_json=True,
                benchmarks=BenchmarkOptions(**others),
            ),
        )
    result = json.loads(output.getvalue())
    assert result["asked"]["heldout-quick"]["samples"] == others.get("samples", 1)
    found = result["suites"]["heldout-quick"]
    return {f"{kind} {tier}": cell for kind, row in found.items() for tier, cell in row.items()}


def test_pawn_answers_in_form_and_some_of_them_right() -> None:
    cells = quick(48)
    assert sum(cell["n"] for cell in cells.values()) == 48
    assert not any("malformed" in cell["not_right"] for cell in cells.values())
    easy = [cell for name, cell in cells.items() if name[-1] in "12"]
    assert sum(cell["accuracy"] * cell["n"] for cell in easy) >= sum(cell["n"] for cell in easy) / 2
    assert 0.2 < shipped_score() < 0.8


def test_a_base_is_asked_as_often_and_at_the_temperature_that_is_wanted(tmp_path: Path) -> None:
    cells = quick(24, samples=3, temperature=1.0, journal=tmp_path / "attempts.jsonl")
    assert {tuple(cell["pass_at"]) for cell in cells.values()} == {("1", "2", "3")}
    assert all(
        cell["interval"][0] < cell["interval"][1] for cell in cells.values()
    )  # one item in each: nearly nothing is known
    replies = defaultdict(set)
    for line in (tmp_path / "attempts.jsonl").read_text().splitlines():
        attempt = json.loads(line)["attempt"]
        replies[attempt["item"]].add(attempt["reply"])
    assert len(replies) == 24 and max(map(len, replies.values())) == 3


def test_attempts_of_other_weights_of_the_same_name_are_not_taken_up(
    tmp_path: Path, other_pawn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = EvalOptions(
        device="cpu",
        limit=6,
        max_tokens=4,
        as_json=True,
        benchmarks=BenchmarkOptions(journal=tmp_path / "attempts.jsonl"),
    )
    lines = []
    for source, asked in (
        ("pawn", options),
        ("pawn", options),
        (str(other_pawn), options),
        ("pawn", replace(options, dtype="bfloat16")),
    ):
        run(source, ["heldout-quick"], asked)
        lines.append(len((tmp_path / "attempts.jsonl").read_text().splitlines()))
    assert lines == [6, 6, 12, 18]


def test_the_version_of_the_prompts_tells_one_worked_example_from_another() -> None:
    class Another(ChatFormat):
        def render(self, request: Request) -> Prompt:
            return replace(super().render(request), before=(("2 + 2?", "4"),))

    assert (
        HeldOut("heldout", Another()).prompt_version
        != HeldOut("heldout", ChatFormat()).prompt_version
    )
    assert (
        HeldOut("heldout", load_prompt_format("compact")).prompt_version == "compact-5d7013"
    )  # what Pawn was measured with


def test_an_answer_without_room_is_not_right_and_no_crash() -> None:
    cells = quick(12, max_tokens=1)
    assert not any(cell["accuracy"] for cell in cells.values())
    assert sum(cell["truncated"] for cell in cells.values()) == 12


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    run("pawn", ["heldout"], EvalOptions(limit=24, max_tokens=4, device="cpu"))
    out, err = capsys.readouterr()
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert len(rows) == 9
    assert not any("│ - " in row for row in rows)
    assert " of 24 malformed" in out
    assert "heldout: 24 replies in" in err


def test_the_command_counts_proposals_as_valid_unique_and_rejected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("pawn", ["proposals"], EvalOptions(limit=9, as_json=True, device="cpu"))
    found = json.loads(capsys.readouterr().out)["suites"]["proposals"]
    assert list(found) == list(KINDS)
    for row in found.values():
        assert row["valid"]["n"] == row["unique"]["n"] + sum(row["rejected"].values()) == 3
