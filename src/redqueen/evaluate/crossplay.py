"""Cross-play over time, the Red Queen test: students of one time attempt what teachers of another
time posed.

Do later students solve what earlier teachers posed, do they forget it, does the race go in circles?
Teachers are represented by the problems that they did pose, which are in the ledger; students by
snapshots of their weights.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redqueen.config.schema import Config
from redqueen.core.build import open_engine, open_ports, read_arms, read_fingerprint
from redqueen.core.pipeline import Ports
from redqueen.engine.text_sampler import TextRequest
from redqueen.errors import ConfigError
from redqueen.ledger.snapshots import Snapshot, snapshots
from redqueen.ledger.store import reader
from redqueen.records import Problem
from redqueen.rng import seed_for, stream
from redqueen.stages.solve import grade_answers
from redqueen.tasks import load_kind


@dataclass(frozen=True, slots=True)
class Crossplay:
    """For one world: how often students of each snapshot are right about problems of each age."""

    world: int
    arm: str
    times: list[int]
    """Steps of the snapshots; the problems of a time were posed in the steps up to it, from the
    time before on."""
    solved: list[list[float]]
    """By the students' time, then by the problems' time."""
    problems: list[int]
    rows: list[dict[str, Any]]
    """For the table `evals` of the ledger."""


def crossplay(
    folder: Path, each: int, device: str | None, base: str | None, say: Callable[[str], None]
) -> list[Crossplay]:
    """All worlds of a run. `each`: most problems of one time. Every student has one attempt at
    each, at the run's temperature."""
    taken = snapshots(folder)
    if len(taken) < 2:
        raise ConfigError(
            f"{folder} has {len(taken)} snapshots, and cross-play needs two or more: set ledger.snapshot_every when a run is started"
        )
    arms = [
        (arm, one if device is None else one.with_settings(device=device))
        for arm, one in read_arms(folder)
    ]
    with ExitStack() as stack:
        engine = open_engine(stack, [one for _, one in arms], read_fingerprint(folder), base)
        ports = open_ports(stack, arms[0][1], engine)
        posed = [
            _posed(folder, world, [snapshot.step for snapshot in taken], each, one)
            for world, (_, one) in enumerate(arms)
        ]
        found: list[list[list[tuple[str, list[bool]]]]] = [[] for _ in arms]
        for snapshot in taken:
            say(f"students of step {snapshot.step}")
            engine.load_weights(snapshot.weights)  # type: ignore[attr-defined]
            for world, (_, one) in enumerate(arms):
                found[world].append(
                    _attempt(
                        ports,
                        snapshot,
                        world,
                        one,
                        [item for time in posed[world] for item in time],
                    )
                )
    return [
        _summary(world, arm, taken, posed[world], found[world])
        for world, (arm, _) in enumerate(arms)
    ]


def _posed(
    folder: Path, world: int, times: Sequence[int], each: int, config: Config
) -> list[list[Problem]]:
    """Problems of each time, those that some attempt solved: what nobody ever solved says nothing
    about anybody."""
    found: list[list[Problem]] = []
    query = (
        "SELECT DISTINCT problems.* FROM problems JOIN proposals USING (world, step, problem) "
        "WHERE world = ? AND step > ? AND step <= ? AND proposals.solve_rate > 0 ORDER BY problems.step, problem"
    )
    with closing(reader(folder)) as connection:
        for before, time in zip([0, *times], times, strict=False):
            rows = connection.execute(query, (world, before, time)).fetchall()
            chosen = stream(config.seed, "crossplay", time).sample(rows, min(each, len(rows)))
            found.append([_problem(row) for row in chosen])
    return found


def _problem(row: Any) -> Problem:
    return Problem(
        row["problem"],
        row["kind"],
        load_kind(row["kind"]).load_payload(json.loads(row["payload"])),
        tuple(json.loads(row["gold"])),
        json.loads(row["features"]),
        step=row["step"],
    )


def _attempt(
    ports: Ports, snapshot: Snapshot, world: int, config: Config, problems: Sequence[Problem]
) -> list[tuple[str, list[bool]]]:
    """By student: right or wrong, problem by problem."""
    prompts = [
        ports.prompt_format.render(ports.kinds[problem.kind].ask_answer(problem))
        for problem in problems
    ]
    students = [
        one for one in snapshot.members if one["world"] == world and one["role"] != "teacher"
    ]
    asks = [
        TextRequest(
            one["slot"],
            prompt,
            config.solve.max_tokens,
            seed_for(config.seed, "crossplay", snapshot.step, one["member"], problem.key),
        )
        for one in students
        for prompt, problem in zip(prompts, problems, strict=True)
    ]
    written = ports.sampler.sample(asks, config.solve.temperature, lambda completions: None)
    answers = [
        (problem, one.text)
        for problem, one in zip([*problems] * len(students), written, strict=True)
    ]
    right = [
        attempt.verdict == "correct"
        for attempt in grade_answers(
            answers, ports.kinds, ports.prompt_format, ports.sandbox, config.verify
        )
    ]
    return [
        (one["member"], right[number * len(problems) : (number + 1) * len(problems)])
        for number, one in enumerate(students)
    ]


def _summary(
    world: int,
    arm: str,
    taken: Sequence[Snapshot],
    posed: Sequence[Sequence[Problem]],
    found: Sequence[Sequence[tuple[str, list[bool]]]],
) -> Crossplay:
    times = [snapshot.step for snapshot in taken]
    ages = [place for place, time in enumerate(posed) for _ in time]
    problems = [problem for time in posed for problem in time]
    solved, rows = [], []
    for time, students in zip(times, found, strict=True):
        by_age: list[list[bool]] = [[] for _ in times]
        for member, right in students:
            for age, problem, correct in zip(ages, problems, right, strict=True):
                by_age[age].append(correct)
                rows.append(
                    {
                        "world": world,
                        "step": time,
                        "suite": f"crossplay/{times[age]}",
                        "subject": member,
                        "item": problem.key,
                        "kind": problem.kind,
                        "tier": 0,
                        "sample": 0,
                        "correct": int(correct),
                    }
                )
        solved.append([sum(some) / len(some) if some else float("nan") for some in by_age])
    return Crossplay(world, arm, times, solved, [len(time) for time in posed], rows)
