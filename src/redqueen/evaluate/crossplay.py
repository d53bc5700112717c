"""Cross-play over time, the Red Queen test: students of one step attempt problems that teachers
posed in another.

Do later students solve what earlier teachers posed, do they forget it, does the race go in circles?
Students are snapshots of their weights; teachers are represented by their problems in the ledger.
"""

import json
import logging
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redqueen.config.schema import Config
from redqueen.core.build import open_engine, open_ports, read_arms, read_fingerprint
from redqueen.core.pipeline import Ports
from redqueen.engine.text_sampler import TextRequest
from redqueen.errors import ConfigError
from redqueen.evaluate.untrusted import untrusted_overrides
from redqueen.ledger.snapshots import Snapshot, snapshots
from redqueen.ledger.store import about_of, open_to_read
from redqueen.models.peft_io import load_adapter
from redqueen.records import Problem
from redqueen.rng import seed_for, stream
from redqueen.stages.solve import grade_answers
from redqueen.tasks import load_kinds, stored_kind

log = logging.getLogger(__name__)

ProblemsByStep = dict[int, list[Problem]]
"""Problems by the snapshot that follows them: those of step 20 were posed after the one before."""


@dataclass(frozen=True, slots=True)
class Crossplay:
    """One world: how often the students of each snapshot solve the problems of each age."""

    world: int
    arm: str
    steps: list[int]
    """Of the snapshots."""
    solved: list[list[float | None]]
    """By the students' step, then by the problems' step; None where there are no problems."""
    problems: list[int]
    """Their number, by step."""
    rows: list[dict[str, Any]]
    """For the table `evals` of the ledger."""

    def to_json(self) -> dict[str, Any]:
        return {
            "world": self.world,
            "arm": self.arm,
            "steps": self.steps,
            "problems": self.problems,
            "solved": self.solved,
        }


def read_snapshots(folder: Path) -> list[Snapshot]:
    """Two or more, oldest first."""
    with closing(open_to_read(folder)) as connection:
        about = about_of(connection)
    if about["schema"] == "1":
        raise ConfigError(
            f"{folder} is a run of redqueen {about['version']}, whose snapshots this version does "
            "not read: cross-play it with that one"
        )
    taken = snapshots(folder)
    if len(taken) < 2:
        raise ConfigError(
            f"{folder} has {len(taken)} snapshots, and cross-play needs two or more: set "
            "ledger.snapshot_every when a run is started"
        )
    return taken


def crossplay(
    folder: Path,
    limit: int = 100,
    *,
    device: str | None = None,
    base: str | None = None,
    unsafe: bool = False,
) -> list[Crossplay]:
    """All worlds of a run, with at most `limit` problems of one step. Every student has one attempt
    at each problem, at the run's temperature. Walls of the sandbox are missing only where `unsafe`
    allows it, whatever the run says."""
    taken = read_snapshots(folder)
    steps = [snapshot.step for snapshot in taken]
    changes = untrusted_overrides(unsafe)
    changes |= {} if device is None else {"device": device}
    arms = [(arm, config.with_settings(**changes)) for arm, config in read_arms(folder)]
    configs = [config for _, config in arms]
    for config in configs:
        load_kinds(*config.tasks.kinds)  # what `read_arms` has named is imported
    with closing(open_to_read(folder)) as connection:
        posed = [
            _sample_problems(connection, world, steps, limit, config)
            for world, config in enumerate(configs)
        ]
    rows: list[list[dict[str, Any]]] = [[] for _ in arms]
    with ExitStack() as stack:
        engine = open_engine(stack, configs, read_fingerprint(folder), base)
        ports = open_ports(stack, configs[0], engine)
        for snapshot in taken:
            log.info("students of step %d", snapshot.step)
            for world, config in enumerate(configs):
                rows[world] += _attempt(ports, snapshot, world, config, posed[world])
    return [
        Crossplay(
            world,
            arm,
            steps,
            _solve_rates(rows[world], steps),
            [len(problems) for problems in posed[world].values()],
            rows[world],
        )
        for world, (arm, _) in enumerate(arms)
    ]


def _sample_problems(
    connection: sqlite3.Connection, world: int, steps: Sequence[int], limit: int, config: Config
) -> ProblemsByStep:
    """Of all problems of each step, whoever solved them: those that the students of the time solved
    would make these look good beside all others."""
    query = """SELECT * FROM problems WHERE world = ? AND step > ? AND step <= ?
        ORDER BY step, problem"""
    posed: ProblemsByStep = {}
    for before, step in zip([0, *steps], steps, strict=False):
        rows = connection.execute(query, (world, before, step)).fetchall()
        chosen = stream(config.seed, "crossplay", step).sample(rows, min(limit, len(rows)))
        posed[step] = [_read_problem(row) for row in chosen]
    return posed


def _read_problem(row: sqlite3.Row) -> Problem:
    return Problem(
        row["problem"],
        row["kind"],
        stored_kind(row["kind"]).load_payload(json.loads(row["payload"])),
        tuple(json.loads(row["gold"])),
        json.loads(row["features"]),
        step=row["step"],
    )


def _attempt(
    ports: Ports, snapshot: Snapshot, world: int, config: Config, posed: ProblemsByStep
) -> list[dict[str, Any]]:
    """The attempts of a snapshot's students at all problems, as rows of the ledger."""
    students = [one for one in snapshot.members if one.world == world and one.role != "teacher"]
    for slot, student in enumerate(students):
        ports.engine.write(slot, load_adapter(student.adapter), reset_optimizer=False)
    requests = [
        TextRequest(
            slot,
            ports.prompt_format.render(ports.kinds[problem.kind].ask_answer(problem)),
            config.solve.max_tokens,
            seed_for(config.seed, "crossplay", snapshot.step, student.id, problem.key),
            item=(student.id, step, problem),
        )
        for slot, student in enumerate(students)
        for step, problems in posed.items()
        for problem in problems
    ]
    completions = ports.sampler.sample(requests, config.solve.temperature, lambda finished: None)
    attempts = grade_answers(
        [(completion.request.item[2], completion.text) for completion in completions],
        ports.kinds,
        ports.prompt_format,
        ports.sandbox,
        config.verify,
    )
    voided = {attempt.problem.key for attempt in attempts if attempt.verdict == "voided"}
    return [
        {
            "world": world,
            "step": snapshot.step,
            "suite": f"crossplay/{step}",
            "subject": member,
            "item": problem.key,
            "kind": problem.kind,
            "tier": 0,
            "sample": 0,
            "correct": int(attempt.verdict == "correct"),
        }
        for (member, step, problem), attempt in zip(
            (request.item for request in requests), attempts, strict=True
        )
        if problem.key not in voided
    ]


def _solve_rates(rows: Sequence[dict[str, Any]], steps: Sequence[int]) -> list[list[float | None]]:
    cells: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        cells.setdefault((row["step"], row["suite"]), []).append(row["correct"])

    def rate(students: int, problems: int) -> float | None:
        cell = cells.get((students, f"crossplay/{problems}"))
        return sum(cell) / len(cell) if cell else None

    return [[rate(students, problems) for problems in steps] for students in steps]
