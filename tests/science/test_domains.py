"""Whole runs of domains without Python programs, with scripted members of known skill: ratings order
them, and archive, coverage, ledger, report and export have what they need."""

import ast
import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import redqueen as rq
from redqueen.config.sandbox import SandboxConfig
from redqueen.evaluate.rewards import grade_replies
from redqueen.ledger.store import digest, open_to_read
from redqueen.report.export.training import export_training
from redqueen.sandbox import Job, Outcome, Result, Sandbox
from redqueen.tasks.logic.generator import random_puzzle
from redqueen.tasks.logic.language import read_json, read_puzzle, write_puzzle
from redqueen.tasks.logic.solver import solve
from redqueen.tasks.prompts.compact import write_blocks
from redqueen.tasks.sources import read_payloads
from redqueen.tasks.sql import runner
from tests.outside.things import NoSandbox
from tests.scripted import Script, TrustingSandbox, play, scripted_run


def blocks_of(prompt: str) -> dict[str, str]:
    return dict(re.findall(r"^>>(\w+)\n(.*?)\n(?=>>)", prompt, re.M | re.S))


def poses_puzzles(tier: int) -> Script:
    def write(prompt: str, rng: Random) -> str:
        if rng.random() < 0.1:
            return write_blocks([("puzzle", '{"variables": {}}')])
        return write_blocks([("puzzle", write_puzzle(random_puzzle(rng, tier)))])

    return write


def solves_puzzles(skill: float) -> Script:
    def write(prompt: str, rng: Random) -> str:
        puzzle = read_puzzle(read_json(blocks_of(prompt)["puzzle"]))
        (solution,) = solve(puzzle).solutions
        hardness = len(puzzle.variables) / 8
        if rng.random() > skill - hardness + 0.5:
            first = next(iter(solution))
            solution = {**solution, first: "wrong"}
        return write_blocks([("assignment", json.dumps(solution))])

    return write


def poses_queries(most: int) -> Script:
    def write(prompt: str, rng: Random) -> str:
        rows = ", ".join(
            f"({n}, '{rng.choice('abc')}', {rng.randint(0, 99)})" for n in range(4 + most)
        )
        tables = f"CREATE TABLE t (id INTEGER PRIMARY KEY, g TEXT, v INTEGER); INSERT INTO t VALUES {rows};"
        query = rng.choice(
            [
                f"SELECT g, sum(v) FROM t WHERE v < {rng.randint(20, 99)} GROUP BY g",
                f"SELECT id, v FROM t WHERE v > {rng.randint(0, 80)} ORDER BY id",
                "SELECT a.id, b.id FROM t a JOIN t b ON a.g = b.g AND a.v < b.v",
                "SELECT id FROM t ORDER BY v LIMIT 1",
                "SELECT random() FROM t",
            ]
        )
        question = [("question", "Which?")] if prompt.startswith(">>teacher sql_q") else []
        return write_blocks([("tables", tables), ("query", query), *question])

    return write


def answers_queries(skill: float) -> Script:
    """Reads results off by running the query; as a writer it remembers nothing, and gives up."""

    def write(prompt: str, rng: Random) -> str:
        given = blocks_of(prompt)
        if prompt.startswith(">>student sql_q"):
            return write_blocks(
                [("query", "SELECT id FROM t" if rng.random() > skill else "nonsense")]
            )
        (result,) = runner.f(given["tables"], given["query"], False)["results"]
        rows = result["rows"] if rng.random() < skill else result["rows"][1:]
        return write_blocks([("result", json.dumps(rows))])

    return write


class RunsQueries(TrustingSandbox):
    """Calls the program of SQL jobs, which is ours, where it stands."""

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        values = [repr(runner.f(*ast.literal_eval(f"({job.inputs[0]})"))) for job in jobs]
        return [Outcome("value", (Result("value", value),)) for value in values]


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(open_to_read(folder)) as connection:
        return [tuple(row) for row in connection.execute(query)]


DOMAINS: dict[str, Any] = {
    "logic": (
        [poses_puzzles(1), poses_puzzles(4)],
        [solves_puzzles(0.3), solves_puzzles(0.8)],
        ["logic"],
        NoSandbox(SandboxConfig()),
    ),
    "sql": (
        [poses_queries(1), poses_queries(6)],
        [answers_queries(0.2), answers_queries(0.8)],
        ["sql_o", "sql_q"],
        RunsQueries(),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("domain", sorted(DOMAINS))
def test_a_domain_plays_a_whole_run(domain: str, tmp_path: Path) -> None:
    teachers, students, kinds, sandbox = DOMAINS[domain]
    box: Sandbox = sandbox
    settings = [
        "steps=6", f"tasks.kinds={kinds}", "archive.seeds=examples", "evolve.every=0",
        "archive.policy=all", "archive.rarity=0.5",
    ]  # fmt: skip
    for name, until in (("straight", None), ("stopped", 3), ("stopped", None)):
        with scripted_run(tmp_path / name, box, teachers, students, settings) as run:
            play(run, until)
    folder = tmp_path / "straight"
    assert digest(folder) == digest(tmp_path / "stopped")
    strong, weak = (
        next(
            mu
            for (mu,) in rows(
                folder, f"SELECT mu FROM ratings WHERE step = 6 AND member = '{name}'"
            )
        )
        for name in ("S1", "S0")
    )
    assert strong > weak
    verdicts = {verdict for (verdict,) in rows(folder, "SELECT DISTINCT verdict FROM attempts")}
    assert {"correct", "wrong"} <= verdicts
    metrics = dict(rows(folder, "SELECT name, value FROM metrics WHERE step = 6"))
    assert metrics["coverage/cells"] > 2 and metrics["coverage/behaviours"] > 5
    assert any(name.startswith("complexity/") for name in metrics)
    page = rq.report(folder, tmp_path / "report.html").read_text()
    assert all(kind in page for kind in kinds)
    path = rq.export_problems(folder, tmp_path / "data", everything=True)
    problems = [
        tuple(row) for row in rows(folder, "SELECT DISTINCT problem FROM problems WHERE step > 0")
    ]
    assert len(read_payloads(path)) == len(problems) > 20


@pytest.mark.parametrize("form", ["verifiers", "trl", "datasets"])
def test_problems_are_exported_for_other_trainers_and_graded(form: Any, tmp_path: Path) -> None:
    teachers, students, kinds, sandbox = DOMAINS["logic"]
    settings = ["steps=1", f"tasks.kinds={kinds}", "archive.seeds=examples"]
    with scripted_run(tmp_path / "run", sandbox, teachers, students, settings) as run:
        play(run)
    out = export_training(tmp_path / "run", tmp_path / "out", form)
    (data,) = out.rglob("problems.jsonl")
    exported = [json.loads(line) for line in data.read_text().splitlines()]
    golds = [json.loads(row["problem"])["gold"][0] for row in exported]
    replies = [f"<answer>{gold}</answer>" for gold in golds]
    problems = [row["problem"] for row in exported]
    assert len(problems) > 2
    assert grade_replies(problems, replies) == [1.0] * len(problems)
    assert grade_replies(problems, ["no"] * len(problems)) == [0.0] * len(problems)
    assert all(
        gold not in row["prompt"][-1]["content"] for gold, row in zip(golds, exported, strict=True)
    )
    assert [message["role"] for message in exported[0]["prompt"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    for path in out.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
