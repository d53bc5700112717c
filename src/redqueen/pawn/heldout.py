"""The held-out suites: frozen problems of tiers 1 to 8 that are in no pre-training document.

They are sampled from seeds of their own, verified in the sandbox, and shipped with the package.
Pre-training leaves out every program whose key is in them, so that the split holds by content and
not only by seed.
"""

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
from redqueen.pawn.documents import make_problem, proposal_blocks
from redqueen.pawn.programs import Program, program_key, sample_program
from redqueen.pawn.puzzles import held_out_lines
from redqueen.records import Problem, Proposal, Rejection
from redqueen.rng import stream
from redqueen.sandbox import Sandbox
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import load_kinds
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.programs import ABDUCTION, DEDUCTION, INDUCTION, Code, load_verified
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

FOLDER = Path(__file__).parent / "suites"
TIERS = range(1, 9)
EACH = 100
"""Problems of each kind and tier."""
QUICK = 200
MAX_TOKENS = {DEDUCTION: 640, ABDUCTION: 100, INDUCTION: 250}
"""Limit for an answer with its reasoning: more than any answer of Pawn takes."""
_SEED = 605_16727  # unlike any pre-training seed; the random streams have other names, too


@dataclass(frozen=True, slots=True)
class Item:
    """A problem of a suite, with its tier."""

    tier: int
    problem: Problem


@cache
def load_suite(name: str) -> tuple[Item, ...]:
    """The items of a suite that ships with the package; its checksum is verified."""
    return tuple(map(make_item, read_lines(name)))


def read_lines(name: str) -> list[dict[str, Any]]:
    """Of a suite that ships with the package, as they are in its file."""
    sums = json.loads((FOLDER / "checksums.json").read_text())
    if name not in sums:
        raise DataError(unknown("suite", name, sums))
    try:
        data = gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes())
    except (OSError, EOFError, zlib.error):  # missing, not a gzip file, truncated, or damaged
        data = b""
    if hashlib.sha256(data).hexdigest() != sums[name]:
        raise DataError(
            f"the suite '{name}' in {FOLDER} is not the one that was shipped: its checksum "
            "differs. Install the package again."
        )
    return [json.loads(line) for line in data.decode().splitlines()]


def small_problems() -> list[Problem]:
    """The identity function as a problem of each kind. Its prompts change with any word of a prompt
    format."""
    numbers = tuple(map(str, range(10)))
    code = Code("def f(a):\n    return a\n", numbers, "It returns what it is given.")
    return [load_verified(kind, code, numbers, len(numbers)) for kind in KINDS]


def shipped_score() -> float:
    """The accuracy of Pawn as shipped on `heldout-quick`."""
    scores = json.loads((FOLDER / "heldout-quick.base.json").read_text())
    cells = [cell for row in scores.values() for cell in row.values()]
    correct = sum(cell["accuracy"] * cell["n"] for cell in cells)
    return float(correct / sum(cell["n"] for cell in cells))


def excluded_keys() -> frozenset[str]:
    """Keys of all held-out programs, which pre-training must not see. Read without making items,
    which takes seconds: every run needs them."""
    return frozenset(program_key(line["program"]) for line in read_lines("heldout"))


def make_item(line: dict[str, Any]) -> Item:
    code = Code(line["program"], tuple(line["inputs"]), line["message"])
    outputs = tuple(line["outputs"])
    return Item(line["tier"], load_verified(line["kind"], code, outputs, line["steps"]))


def build_suites(folder: Path, sandbox: Sandbox, each: int = EACH) -> None:
    """Sample and verify the suites, and write them with their checksums. This is how they were
    frozen; a test rebuilds a part of them. `heldout-critique` is not sampled: it has attempts of a
    model (`redqueen pawn attempts`)."""
    from redqueen.pawn.heldout_large import deduction_lines  # which is built on this module

    lines = [json.dumps(line) for line in _build(sandbox, each)]
    deduction = [json.dumps(line) for line in deduction_lines(10 * each)]
    stride = max(1, len(lines) // QUICK)
    sums = {}
    folder.mkdir(parents=True, exist_ok=True)
    suites = {
        "heldout": lines,
        "heldout-quick": lines[::stride],
        "heldout-deduction": deduction,
        "heldout-logic": [json.dumps(line) for line in held_out_lines(6 * each)],
    }
    for name, chosen in suites.items():
        data = ("\n".join(chosen) + "\n").encode()
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(data, 9, mtime=0))
        sums[name] = hashlib.sha256(data).hexdigest()
    (folder / "checksums.json").write_text(json.dumps(sums, indent=2) + "\n")


def _build(sandbox: Sandbox, each: int) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for kind in KINDS:
        for tier in TIERS:
            programs = _sample_unseen(kind, tier, each, seen)
            for program, problem in zip(programs, _verify(kind, programs, sandbox), strict=True):
                yield {
                    "kind": kind,
                    "tier": tier,
                    "program": program.text,
                    "inputs": problem.payload.inputs,
                    "outputs": problem.gold,
                    "message": problem.payload.message,
                    "steps": problem.features["steps_executed"],
                }


def _sample_unseen(kind: str, tier: int, count: int, seen: set[str]) -> list[Program]:
    """Programs that are in no item so far."""
    rng = stream(_SEED, "pawn", "heldout", kind, tier)
    programs: list[Program] = []
    while len(programs) < count:
        program = sample_program(rng, tier)
        if program.key not in seen:
            seen.add(program.key)
            programs.append(program)
    return programs


def _verify(kind: str, programs: list[Program], sandbox: Sandbox) -> list[Problem]:
    """The programs as problems, verified like a teacher's proposals."""
    proposals = []
    for program in programs:
        references = (make_problem(DEDUCTION, program),) if kind == INDUCTION else ()
        proposals.append(Proposal(kind, write_blocks(proposal_blocks(kind, program)), references))
    verdicts = verify_proposals(proposals, load_kinds(), CompactFormat(), sandbox, VerifyConfig())
    problems = []
    for program, verdict in zip(programs, verdicts, strict=True):
        assert not isinstance(verdict, Rejection), (verdict, program.text)
        expected = make_problem(kind, program)
        assert verdict.gold == expected.gold, (
            verdict.gold,
            expected.gold,
            program.text,
        )
        problems.append(verdict)
    return problems
