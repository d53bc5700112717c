"""`redqueen sandbox run`: programs in, outcomes out, one a line, in order."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from redqueen.cli.console import progress, warn_if_unsafe
from redqueen.config.sandbox import SandboxConfig
from redqueen.jsonl import open_output, read_jsonl
from redqueen.sandbox import Job, Limits, Outcome
from redqueen.sandbox.pool import SandboxPool


def run(
    path: Path,
    out: Path | None,
    limits: Limits,
    input_as: Literal["literal", "expression"],
    config: SandboxConfig,
) -> None:
    cases = [case for _, case in read_jsonl(path, required=("name", "program", "input"))]
    jobs = [
        Job(case["program"], (case["input"],), limits=limits, input_as=input_as, stable=True)
        for case in cases
    ]
    warn_if_unsafe(config.unsafe)
    with open_output(out) as output, SandboxPool(config) as pool, progress() as bar:
        task = bar.add_task("running", total=len(jobs))
        for index, outcome in _in_order(pool, jobs):
            output.write(_line(cases[index]["name"], outcome) + "\n")
            output.flush()
            bar.advance(task)


def _in_order(pool: SandboxPool, jobs: list[Job]) -> Iterator[tuple[int, Outcome]]:
    waiting: dict[int, Outcome] = {}
    due = 0
    for index, outcome in pool.stream(jobs):
        waiting[index] = outcome
        while due in waiting:
            yield due, waiting.pop(due)
            due += 1


def _line(name: str, outcome: Outcome) -> str:
    line: dict[str, object] = {"name": name, "outcome": outcome.kind}
    if outcome.kind == "value":
        line["value"] = outcome.values[0]
    return json.dumps({**line, "detail": outcome.detail, "cpu_s": round(outcome.cpu_s, 4)})
