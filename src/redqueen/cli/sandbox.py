"""`redqueen sandbox`: run programs, write one outcome a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from redqueen.cli.console import progress, warn_if_unsafe
from redqueen.cli.lazy import new_app
from redqueen.cli.options import SandboxMode
from redqueen.config.toml import load_config
from redqueen.jsonl import open_output, read_jsonl
from redqueen.sandbox import Job, Limits, Outcome
from redqueen.sandbox.pool import SandboxPool

app = new_app(no_args_is_help=True)


@app.callback()
def sandbox() -> None:
    """Run hostile programs behind walls."""


@app.command()
def run(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="CASES",
            help="Programs, one JSON object a line: `name`, `program`, `input`.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the results here instead of to the terminal.")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.001, max=3600, help="CPU seconds for each run of a program.")
    ] = 1.0,
    memory_mb: Annotated[
        int,
        typer.Option(min=16, max=1_048_576, help="Memory beyond the interpreter's own, in MiB."),
    ] = 256,
    input_as: Annotated[
        Literal["literal", "expression"],
        typer.Option(help="`expression` evaluates inputs inside the sandbox: for benchmark data."),
    ] = "literal",
    mode: SandboxMode = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Leave this wall down: namespaces or landlock; for tests."),
    ] = None,
) -> None:
    """Run programs on inputs, three times each in different processes, and write one outcome a
    line, in order.
    """
    unsafe = "true" if mode == "unsafe" else "false"
    settings = [f"sandbox.unsafe={unsafe}", f"sandbox.without={without or []}"]
    config = load_config(None, settings).sandbox
    limits = Limits(timeout_s, memory_mb)
    cases = [case for _, case in read_jsonl(file, required=("name", "program", "input"))]
    jobs = [
        Job(case["program"], (case["input"],), limits=limits, input_as=input_as, stable=True)
        for case in cases
    ]
    warn_if_unsafe(config.unsafe)
    with open_output(out) as output, SandboxPool(config) as pool, progress() as bar:
        task = bar.add_task("running", total=len(jobs))
        for index, outcome in _stream_in_order(pool, jobs):
            output.write(_line(cases[index]["name"], outcome) + "\n")
            output.flush()
            bar.advance(task)


def _stream_in_order(pool: SandboxPool, jobs: list[Job]) -> Iterator[tuple[int, Outcome]]:
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
