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

from redqueen.benchmarks.suite import PromptStyle
from redqueen.cli.evaluate import evaluate
from redqueen.evaluate.heldout import HeldOut, spread
from redqueen.evaluate.runner import evaluate as evaluate_model
from redqueen.pawn.heldout import load_suite, shipped_score
from redqueen.tasks.code import KINDS
from redqueen.tasks.kind import Request
from redqueen.tasks.prompts import Prompt, PromptFormat, load_prompt_format
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


def quick(limit: int, **options: Any) -> dict[str, dict[str, Any]]:
    """Scores of Pawn on a part of the quick suite, cell by cell."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        evaluate("pawn", ["heldout-quick"], limit=limit, device="cpu", as_json=True, **options)
    row = json.loads(output.getvalue())["suites"]["heldout-quick"]
    assert (row["n"], row["samples"]) == (limit, options.get("samples", 1))
    return {
        f"{kind} {tier}": cell
        for kind, tiers in row["tiers"].items()
        for tier, cell in tiers.items()
    }


def test_pawn_answers_in_form_and_some_are_correct() -> None:
    cells = quick(48)
    assert sum(cell["n"] for cell in cells.values()) == 48
    assert not any("malformed" in cell["incorrect"] for cell in cells.values())
    easy = [cell for name, cell in cells.items() if name[-1] in "12"]
    assert sum(cell["accuracy"] * cell["n"] for cell in easy) >= sum(cell["n"] for cell in easy) / 2
    assert 0.2 < shipped_score() < 0.8


def test_forced_reasoning_begins_every_answer_to_deduction_and_no_other() -> None:
    result = evaluate_model("pawn", "heldout-quick", limit=24, device="cpu", reasoning="forced")
    kinds = {item.id: item.kind for item in result.items}
    for reply in result.replies:
        assert reply.reply.startswith(">>think\n") == (kinds[reply.item] == "code_o")
        assert "malformed" not in reply.reason
    assert result.to_json()["reasoning"] == "forced"


def test_a_base_is_asked_as_often_and_at_the_temperature_that_is_wanted(tmp_path: Path) -> None:
    cells = quick(24, samples=3, temperature=1.0, out=tmp_path / "out.json")
    assert {tuple(cell["pass_at"]) for cell in cells.values()} == {("1", "2", "3")}
    assert all(
        cell["interval"][0] < cell["interval"][1] for cell in cells.values()
    )  # one item in each: nearly nothing is known
    replies = defaultdict(set)
    for line in (tmp_path / "out.attempts.jsonl").read_text().splitlines():
        reply = json.loads(line)["reply"]
        if reply["model"] == "base":
            replies[reply["item"]].add(reply["reply"])
    assert len(replies) == 24 and max(map(len, replies.values())) == 3


def test_attempts_of_other_weights_of_the_same_name_are_not_taken_up(
    tmp_path: Path, other_pawn: Path
) -> None:
    out, lines = tmp_path / "out.json", []
    for source, dtype in (
        ("pawn", "auto"),
        ("pawn", "auto"),
        (str(other_pawn), "auto"),
        ("pawn", "bfloat16"),
    ):
        evaluate(
            source,
            ["heldout-quick"],
            device="cpu",
            dtype=dtype,  # type: ignore[arg-type]
            limit=6,
            max_tokens=4,
            as_json=True,
            out=out,
        )
        lines.append(len((tmp_path / "out.attempts.jsonl").read_text().splitlines()))
    assert lines == [12, 12, 24, 36]  # each with its reasoning free and forced


def test_the_version_of_the_prompts_tells_one_worked_example_from_another() -> None:
    class Another(ChatFormat):
        def render(self, request: Request) -> Prompt:
            return replace(super().render(request), before=(("2 + 2?", "4"),))

    suite = HeldOut("heldout")

    def version(prompt_format: PromptFormat) -> str:
        return suite.prompt_version(PromptStyle(chat=True, prompt_format=prompt_format))

    assert version(Another()) != version(ChatFormat())
    assert version(load_prompt_format("compact")) == "compact-5d7013"  # Pawn was measured with it


def test_an_answer_without_room_is_incorrect_and_no_crash() -> None:
    cells = quick(12, max_tokens=1)
    assert not any(cell["accuracy"] for cell in cells.values())
    assert sum(cell["truncated"] for cell in cells.values()) == 12


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate("pawn", ["heldout"], limit=24, max_tokens=4, device="cpu")
    out, err = capsys.readouterr()
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert len(rows) == 10  # eight tiers, all, and the base with its reasoning forced
    assert not any("│ - " in row for row in rows)
    assert " of 24 malformed" in " ".join(out.split())
    assert "heldout: 48 replies in" in err


def test_the_command_counts_proposals_as_valid_unique_and_rejected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evaluate("pawn", ["proposals"], limit=9, as_json=True, device="cpu")
    found = json.loads(capsys.readouterr().out)["suites"]["proposals"]
    assert list(found) == list(KINDS)
    for row in found.values():
        assert row["valid"]["n"] == row["unique"]["n"] + sum(row["rejected"].values()) == 3
