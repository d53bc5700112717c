"""`redqueen retention`: which operators make children that recover, beside plain copies."""

import json
from typing import Annotated

import typer
from rich.table import Table

from redqueen.cli.console import print_table, progress, warn_if_unsafe
from redqueen.cli.options import Json, MovedBase, RunFolder, SandboxMode
from redqueen.evaluate.retention import Retention
from redqueen.evaluate.retention import retention as measure_retention


def retention(
    folder: RunFolder,
    operators: Annotated[
        list[str] | None,
        typer.Option(
            "--operator",
            help="Only this operator, by name or import path (package.module:name); may be "
            "repeated.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Children of each operator.")] = 5,
    updates: Annotated[
        int, typer.Option(min=3, help="Updates in which a child has to recover.")
    ] = 20,
    problems: Annotated[
        int, typer.Option(min=1, help="Fixed problems in an update, the same for all.")
    ] = 16,
    base: MovedBase = None,
    sandbox: SandboxMode = None,
    as_json: Json = False,
) -> None:
    """Find operators whose children reach the level of plain copies after as many updates on the
    same problems, and say what difference that can detect. The parents are the run's two best
    students.
    """
    unsafe = sandbox == "unsafe"
    warn_if_unsafe(unsafe)
    with progress() as bar:
        task = bar.add_task("updates", total=updates)
        results = measure_retention(
            folder,
            operators or (),
            seeds=seeds,
            updates=updates,
            problems=problems,
            base=base,
            unsafe=unsafe,
            on_update=lambda done, total: bar.update(task, completed=done),
        )
    if as_json:
        print(json.dumps([result.to_json() for result in results]))
    else:
        print_table(_table(results))


def _table(results: list[Retention]) -> Table:
    table = Table(
        title="points to copies of the parent that learn from the same problems",
        title_justify="left",
    )
    columns = ("operator", "at birth", "at the end (95 %)", "detectable (80 %)", "")
    for column in columns:
        table.add_column(column, justify="left" if column in ("operator", "") else "right")
    for result in results:
        at_end = f"{100 * result.at_end:+.1f}"
        if result.interval:
            at_end += " ({:+.1f} to {:+.1f})".format(*(100 * end for end in result.interval))
        detectable = "-" if result.detectable is None else f"{100 * result.detectable:.1f}"
        at_birth = f"{100 * result.at_birth:+.1f}"
        table.add_row(result.operator, at_birth, at_end, detectable, result.verdict)
    return table
