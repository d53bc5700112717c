"""Real benchmark data through the sandbox. Needs the files; `REDQUEEN_DATA` names their folder."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from redqueen.sandbox import Job, Limits
from redqueen.sandbox.literals import canonical, ordered, parse_literal
from redqueen.sandbox.pool import SandboxPool

DATA = os.environ.get("REDQUEEN_DATA")
pytestmark = [
    pytest.mark.data,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not DATA, reason="REDQUEEN_DATA is not set"),
]
GENEROUS = Limits(cpu_s=20, memory_mb=1024, output_kb=16 * 1024)


def load(name: str) -> list[dict[str, Any]]:
    path = Path(DATA or "") / name
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def test_all_800_cruxeval_outputs_are_reproduced(pool: SandboxPool) -> None:
    rows = load("cruxeval.jsonl")
    outcomes = pool.run(
        [Job(row["code"], (row["input"],), input_as="expression", stable=True) for row in rows]
    )
    wrong = [
        row["id"]
        for row, outcome in zip(rows, outcomes, strict=True)
        if outcome.kind != "value" or outcome.values[0] != canonical(parse_literal(row["output"]))
    ]
    assert (len(rows), wrong) == (800, [])


def test_all_164_humaneval_solutions_pass_their_tests_and_wrong_ones_do_not(
    pool: SandboxPool,
) -> None:
    rows = load("humaneval.jsonl")
    tests = [
        f"{row['prompt']}{row['canonical_solution']}\n{row['test']}\ncheck(candidate)\n"
        for row in rows
    ]
    right = [
        Job(
            row["prompt"] + row["canonical_solution"],
            mode="tests",
            entry=row["entry_point"],
            tests=test,
            limits=GENEROUS,
        )
        for row, test in zip(rows, tests, strict=True)
    ]
    wrong = [
        Job(
            f"def {row['entry_point']}(*a): return None",
            mode="tests",
            entry=row["entry_point"],
            tests=test,
            limits=GENEROUS,
        )
        for row, test in zip(rows, tests, strict=True)
    ]
    assert [
        row["task_id"]
        for row, outcome in zip(rows, pool.run(right), strict=True)
        if outcome.kind != "value"
    ] == []
    assert [
        row["task_id"]
        for row, outcome in zip(rows, pool.run(wrong), strict=True)
        if outcome.kind == "value"
    ] == []


def test_all_164_humaneval_plus_solutions_give_the_canonical_outputs(pool: SandboxPool) -> None:
    rows = load("humaneval_plus_mini.jsonl.gz")
    jobs = []
    for row in rows:
        inputs = tuple(
            ", ".join(ordered(argument, 1 << 24) for argument in arguments)
            for arguments in row["base_input"] + row["plus_input"]
        )
        jobs.append(
            Job(
                row["prompt"] + row["canonical_solution"],
                inputs,
                entry=row["entry_point"],
                limits=GENEROUS,
            )
        )
    gold = pool.run(jobs)
    assert [
        (row["task_id"], outcome.detail)
        for row, outcome in zip(rows, gold, strict=True)
        if outcome.kind != "value"
    ] == []
    again = pool.run(jobs)
    assert [
        row["task_id"] for row, a, b in zip(rows, gold, again, strict=True) if a.values != b.values
    ] == []
