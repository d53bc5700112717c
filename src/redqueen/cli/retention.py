"""`redqueen retention`: which operators make children that recover, beside two controls."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.console import progress
from redqueen.cli.options import Json, MovedBase, RunFolder
from redqueen.evaluate.retention import CONTROLS, Retention
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
    seeds: Annotated[int, typer.Option(min=1, help="Children of each operator.")] = 3,
    updates: Annotated[
        int, typer.Option(min=3, help="Updates in which a child has to recover.")
    ] = 20,
    problems: Annotated[
        int, typer.Option(min=1, help="Fixed problems in an update, the same for all.")
    ] = 16,
    base: MovedBase = None,
    as_json: Json = False,
) -> None:
    """Which operators make children that recover their parents' level, beside a copy and a plain
    mean. The parents are the run's two best students.
    """
    with progress() as bar:
        task = bar.add_task("updates", total=updates)
        results = measure_retention(
            folder,
            operators or (),
            seeds=seeds,
            updates=updates,
            problems=problems,
            base=base,
            on_update=lambda done, total: bar.update(task, completed=done),
        )
    if as_json:
        print(json.dumps([result.to_json() for result in results]))
    else:
        Console(highlight=False).print(_table(results))


def _table(results: list[Retention]) -> Table:
    table = Table(
        title="points to the better parent on the same problems, and updates until recovery",
        title_justify="left",
    )
    for column in ("operator", "at birth", "at the end", "updates", ""):
        table.add_column(column, justify="left" if column in ("operator", "") else "right")
    for result in results:
        updates = ", ".join("never" if count is None else str(count) for count in result.updates)
        mark = "control" if result.operator in CONTROLS else "" if result.passes else "fails"
        at_birth, at_end = f"{100 * result.at_birth:+.1f}", f"{100 * result.at_end:+.1f}"
        table.add_row(result.operator, at_birth, at_end, updates, mark)
    return table
