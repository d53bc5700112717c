"""`redqueen eval` on a part of its suites: spread over kinds and tiers, printed as tables, told apart from what was malformed."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from redqueen.commands.evaluate import EvalOptions, run
from redqueen.evaluate.heldout import HeldOut, attempt_items, by_kind_and_tier, spread
from redqueen.evaluate.subject import Subject
from redqueen.model.base import Base
from redqueen.pawn.heldout import load_suite, shipped_score
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks import KINDS
from redqueen.tasks.kind import Request
from redqueen.tasks.prompts import Prompt, load_pack
from redqueen.tasks.prompts.chat import ChatPack


@pytest.mark.parametrize("suite", ["heldout", "heldout-quick"])
def test_a_part_of_a_suite_has_its_share_of_every_kind_and_tier(suite: str) -> None:
    part = spread(load_suite(suite), 24)
    assert len({(item.problem.kind, item.tier) for item in part}) == 24
    assert Counter(item.problem.kind for item in spread(load_suite(suite), 6)) == dict.fromkeys(KINDS, 2)
    assert len({item.problem.key for item in spread(load_suite(suite), 101)}) == 101
    assert spread(load_suite(suite), None) == spread(load_suite(suite), 9999) == load_suite(suite)


def test_pawn_answers_in_form_and_some_of_them_right(pool: SandboxPool, pawn: Base) -> None:
    items = [item for item in load_suite("heldout-quick") if item.tier <= 2][::4]
    attempts = attempt_items(items, Subject(pawn, load_pack("compact")), pool)
    assert "malformed" not in {attempt.verdict for attempt in attempts}
    table = by_kind_and_tier(items, attempts)
    assert sum(cell.n for row in table.values() for cell in row.values()) == len(items)
    assert sum(cell.right for row in table.values() for cell in row.values()) >= len(items) // 2
    assert 0.2 < shipped_score() < 0.8


def test_the_version_of_the_prompts_tells_one_worked_example_from_another() -> None:
    class Another(ChatPack):
        def render(self, request: Request) -> Prompt:
            return replace(super().render(request), before=(("2 + 2?", "4"),))

    assert HeldOut("heldout", Another()).prompt_version != HeldOut("heldout", ChatPack()).prompt_version
    assert HeldOut("heldout", load_pack("compact")).prompt_version == "compact-5d7013"  # what Pawn was measured with


def test_an_answer_without_room_is_not_right_and_no_crash(pool: SandboxPool, pawn: Base) -> None:
    items = load_suite("heldout-quick")[::50]
    attempts = attempt_items(items, Subject(pawn, load_pack("compact")), pool, max_tokens=1)
    assert "right" not in {attempt.verdict for attempt in attempts}


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    run("pawn", ["heldout"], EvalOptions(limit=24, max_tokens=4, device="cpu"))
    out, err = capsys.readouterr()
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert len(rows) == 9
    assert not any("│ - " in row for row in rows)
    assert "heldout: 24 answers (" in err


def test_the_command_counts_proposals_as_valid_unique_and_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    run("pawn", ["proposals"], EvalOptions(limit=9, as_json=True, device="cpu"))
    found = json.loads(capsys.readouterr().out)["suites"]["proposals"]
    assert list(found) == list(KINDS)
    for row in found.values():
        assert row["valid"]["n"] == row["unique"]["n"] + sum(row["rejected"].values()) == 3
