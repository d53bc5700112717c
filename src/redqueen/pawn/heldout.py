"""The held-out suites: frozen problems of tiers 1 to 8, which no pre-training document shows.

They are drawn from seeds of their own, verified in the sandbox, and stored with the package.
Pre-training leaves out every program whose key is here, so that the split holds by content and not
only by seed.
"""

import ast
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from redqueen.config.stages import VerifyConfig
from redqueen.errors import DataError, unknown
from redqueen.pawn.documents import problem_of, proposed_blocks
from redqueen.pawn.programs import Program, sample_program, program_key
from redqueen.records import Problem, Proposal, Rejection
from redqueen.rng import stream
from redqueen.sandbox import Sandbox
from redqueen.sandbox.inspection.canonical import canonical_program
from redqueen.sandbox.inspection.complexity import measure
from redqueen.stages.verify import verify
from redqueen.tasks import KINDS
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

FOLDER = Path(__file__).parent / "suites"
TIERS = range(1, 9)
EACH = 100
"""Problems of each kind and tier."""
QUICK = 200
_SEED = 605_16727  # far from every pre-training seed; the streams are named apart as well


@dataclass(frozen=True, slots=True)
class Item:
    """A problem of a suite, with its tier."""

    tier: int
    problem: Problem


@cache
def load_suite(name: str) -> tuple[Item, ...]:
    """The items of `heldout` or `heldout-quick`, after a look at their checksum."""
    return tuple(map(_item, _lines(name)))


def _lines(name: str) -> list[dict[str, Any]]:
    sums = json.loads((FOLDER / "checksums.json").read_text())
    if name not in sums:
        raise DataError(unknown("suite", name, sums))
    try:
        data = gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes())
    except (OSError, EOFError, zlib.error):  # not there, not a gzip file, cut short, or damaged
        data = b""
    if hashlib.sha256(data).hexdigest() != sums[name]:
        raise DataError(
            f"the suite '{name}' in {FOLDER} is not the one that was shipped: its checksum differs. Install the package again."
        )
    return [json.loads(line) for line in data.decode().splitlines()]


def shipped_score() -> float:
    """The share of `heldout-quick` that Pawn as it ships has right."""
    cells = [
        cell
        for row in json.loads((FOLDER / "heldout-quick.base.json").read_text()).values()
        for cell in row.values()
    ]
    return float(
        sum(cell["accuracy"] * cell["n"] for cell in cells) / sum(cell["n"] for cell in cells)
    )


def excluded_keys() -> frozenset[str]:
    """Keys of all held-out programs: what pre-training must not see. Items are not made of them:
    that takes seconds, and every run asks."""
    return frozenset(program_key(line["program"]) for line in _lines("heldout"))


def _item(line: dict[str, Any]) -> Item:
    tree = ast.parse(line["program"])
    problem = Problem(
        kind=line["kind"],
        program=line["program"],
        inputs=tuple(line["inputs"]),
        outputs=tuple(line["outputs"]),
        complexity=measure(tree, line["program"]),
        canonical=canonical_program(tree),
        steps=line["steps"],
        message=line["message"],
    )
    return Item(line["tier"], problem)


def build_suites(folder: Path, sandbox: Sandbox, each: int = EACH) -> None:
    """Draw and verify the suites, and write them with their checksums. They were frozen this way; a
    test builds a part of them anew."""
    lines = [json.dumps(line) for line in _build(sandbox, each)]
    stride = max(1, len(lines) // QUICK)
    sums = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("heldout", lines), ("heldout-quick", lines[::stride])):
        data = ("\n".join(chosen) + "\n").encode()
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(data, 9, mtime=0))
        sums[name] = hashlib.sha256(data).hexdigest()
    (folder / "checksums.json").write_text(json.dumps(sums, indent=2) + "\n")


def _build(sandbox: Sandbox, each: int) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for kind in KINDS:
        for tier in TIERS:
            programs = _unseen(kind, tier, each, seen)
            for program, problem in zip(programs, _verified(kind, programs, sandbox), strict=True):
                yield {
                    "kind": kind,
                    "tier": tier,
                    "program": program.text,
                    "inputs": problem.inputs,
                    "outputs": problem.outputs,
                    "message": problem.message,
                    "steps": problem.steps,
                }


def _unseen(kind: str, tier: int, count: int, seen: set[str]) -> list[Program]:
    """Programs that no item so far has."""
    draw = stream(_SEED, "pawn", "heldout", kind, tier)
    found: list[Program] = []
    while len(found) < count:
        program = sample_program(draw, tier)
        if program.key not in seen:
            seen.add(program.key)
            found.append(program)
    return found


def _verified(kind: str, programs: list[Program], sandbox: Sandbox) -> list[Problem]:
    """The programs as problems, by the same path that a teacher's proposal takes."""
    proposals = []
    for program in programs:
        references = (problem_of("code_o", program),) if kind == "code_f" else ()
        proposals.append(Proposal(kind, write_blocks(proposed_blocks(kind, program)), references))
    verdicts = verify(proposals, dict(KINDS), CompactFormat(), sandbox, VerifyConfig())
    problems = []
    for program, verdict in zip(programs, verdicts, strict=True):
        assert not isinstance(verdict, Rejection), (verdict, program.text)
        expected = problem_of(kind, program)
        assert verdict.outputs == expected.outputs, (
            verdict.outputs,
            expected.outputs,
            program.text,
        )
        problems.append(verdict)
    return problems
