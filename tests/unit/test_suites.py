"""The held-out suites: frozen, checked, drawn anew as they were, apart from what Pawn learns from."""

import gzip
import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from redqueen.config.sandbox import SandboxConfig
from redqueen.config.stages import VerifyConfig
from redqueen.errors import DataError
from redqueen.evaluate.suites import load_suite as load_any
from redqueen.pawn import heldout, heldout_large
from redqueen.pawn.heldout import EACH, QUICK, TIERS, load_suite
from redqueen.pawn.programs import is_reserved, program_key
from redqueen.pawn.puzzles import (
    held_out_lines,
    puzzle_key,
    read_puzzle_line,
    vary_problem,
    write_puzzle_documents,
)
from redqueen.rng import stream
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.solve import grade_answers
from redqueen.tasks import load_kinds
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.programs import Code
from redqueen.tasks.logic.language import write_puzzle
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks


def test_heldout_has_a_hundred_problems_of_each_kind_and_tier() -> None:
    counts = Counter((item.problem.kind, item.tier) for item in load_suite("heldout"))
    assert counts == {(kind, tier): EACH for kind in KINDS for tier in TIERS}
    assert EACH == 100
    assert len({item.problem.key for item in load_suite("heldout")}) == 2400


def test_heldout_quick_is_a_part_of_it_spread_over_kinds_and_tiers() -> None:
    quick = load_suite("heldout-quick")
    assert len(quick) == QUICK == 200
    assert {item.problem.key for item in quick} <= {
        item.problem.key for item in load_suite("heldout")
    }
    assert all(
        count in (8, 9)
        for count in Counter((item.problem.kind, item.tier) for item in quick).values()
    )


def test_an_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(DataError, match=r"unknown suite 'holdout'. Did you mean 'heldout'"):
        load_suite("holdout")


def test_deduction_is_sampled_again_as_it_was_frozen() -> None:
    """Otherwise the suites could not be built again, nor their programs kept out of
    pre-training."""
    seen: set[str] = set()
    sampled = [
        program for tier in TIERS for program in heldout._sample_unseen("code_o", tier, EACH, seen)
    ]
    frozen = [item for item in load_suite("heldout") if item.problem.kind == "code_o"]
    for program, item in zip(sampled, frozen, strict=True):
        code: Code = item.problem.payload
        assert (program.tier, program.text) == (item.tier, code.program)
        assert (program.inputs[:1], program.outputs[:1]) == (code.inputs, item.problem.gold)


@pytest.mark.parametrize("harm", ["another answer", "damaged", "cut short", "missing"])
def test_a_suite_that_is_not_the_shipped_one_is_refused(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(heldout.FOLDER, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(heldout, "FOLDER", tmp_path)
    load = load_suite.__wrapped__  # without its memory
    assert load("heldout-quick") == load_suite("heldout-quick")
    path = tmp_path / "heldout-quick.jsonl.gz"
    data = path.read_bytes()
    if harm == "another answer":
        path.write_bytes(
            gzip.compress(gzip.decompress(data).replace(b'"outputs": ["', b'"outputs": ["1', 1))
        )
    elif harm == "damaged":
        path.write_bytes(data[:5000] + bytes(100) + data[5100:])
    elif harm == "cut short":
        path.write_bytes(data[:5000])
    else:
        path.unlink()
    with pytest.raises(DataError, match="checksum differs"):
        load("heldout-quick")


def test_the_streams_of_suites_and_documents_are_apart() -> None:
    """Whatever the seed of a pre-training, even that of the suites."""
    held_out = {
        stream(heldout._SEED, "pawn", "heldout", kind, tier).random()
        for kind in KINDS
        for tier in TIERS
    }
    documents = {
        stream(seed, "pawn", "documents", number).random()
        for seed in (0, 1, heldout._SEED)
        for number in range(-24, 1000)
    }
    assert not held_out & documents


def test_heldout_large_is_apart_from_training_and_from_the_other_suites() -> None:
    lines = list(heldout_large.sample_lines(120))
    keys = [program_key(line["program"]) for line in lines]
    assert len(set(keys)) == 120 and all(map(is_reserved, keys))
    assert not set(keys) & heldout.excluded_keys()
    assert set(Counter((line["kind"], line["tier"]) for line in lines).values()) == {10}
    assert list(heldout_large.sample_lines(12)) == lines[:12]


def test_heldout_large_is_sampled_once_and_again_where_the_file_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    text = "".join(json.dumps(line) + "\n" for line in heldout_large.sample_lines(24))
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(heldout_large, "COUNT", 24)
    with pytest.raises(DataError, match="came out other"):
        heldout_large.load_large.__wrapped__()
    monkeypatch.setattr(heldout_large, "_CHECKSUM", hashlib.sha256(text.encode()).hexdigest())
    items = [heldout_large.load_large.__wrapped__() for _ in range(2)]
    assert items[0] == items[1] and len(items[0]) == 24
    (path,) = (tmp_path / "cache").iterdir()
    path.write_bytes(b"damaged")
    assert heldout_large.load_large.__wrapped__() == items[0]
    assert caplog.text.count("once, into") == 3  # the refused one, the first, and after the damage


@pytest.mark.slow
def test_programs_of_heldout_large_return_in_the_sandbox_what_is_taken_for_gold() -> None:
    items = [heldout.make_item(line) for line in heldout_large.sample_lines(96)]
    answers = [
        (item.problem, write_blocks([("input", item.problem.payload.inputs[0])]))
        for item in items
        if item.problem.kind == "code_i"
    ]
    with SandboxPool(SandboxConfig()) as sandbox:
        graded = grade_answers(answers, load_kinds(), CompactFormat(), sandbox, VerifyConfig())
    assert len(graded) == 32 and all(attempt.verdict == "correct" for attempt in graded)


def test_held_out_puzzles_are_reserved_and_solved_by_one_assignment() -> None:
    items = load_any("heldout-logic").items(None, None)
    assert Counter(item.tier for item in items) == {1: 200, 2: 200, 3: 200}
    keys = [puzzle_key(item.fields["problem"].payload) for item in items]
    assert len(set(keys)) == 600 and all(map(is_reserved, keys[:60]))
    trained = write_puzzle_documents(stream(3, "tests", "reserved"), 60)
    texts = [one.split(">>puzzle\n")[1].partition("\n>>")[0] for one in trained]
    shown = [read_puzzle_line({"puzzle": text}).payload for text in texts]
    assert not any(is_reserved(puzzle_key(puzzle)) for puzzle in shown)


def test_the_key_of_a_puzzle_forgets_names_and_order() -> None:
    problem = load_any("heldout-logic").items(None, 3)[2].fields["problem"]
    rng = stream(0, "tests", "names")
    varied = [vary_problem(problem, rng).payload for _ in range(4)]
    assert len({write_puzzle(puzzle) for puzzle in varied}) > 1
    assert {puzzle_key(puzzle) for puzzle in varied} == {puzzle_key(problem.payload)}


@pytest.mark.slow
def test_puzzles_are_sampled_again_as_they_were_frozen() -> None:
    assert list(held_out_lines(30)) == heldout.read_lines("heldout-logic")[:30]
