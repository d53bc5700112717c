"""`redqueen retention`: the table of operators, beside both controls."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.console import progress
from redqueen.cli.options import Json, MovedBase, RunFolder
from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.retention import CONTROLS, Retained
from redqueen.evaluate.retention import retention as measure_retention
from redqueen.stages.evolve.cross import CROSSOVERS
from redqueen.stages.evolve.mutate import MUTATIONS


def retention(
    folder: RunFolder,
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help="Only this operator; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Children of each operator.")] = 3,
    updates: Annotated[
        int, typer.Option(min=3, help="Updates in which a child has to be back.")
    ] = 20,
    problems: Annotated[
        int, typer.Option(min=1, help="Fixed problems for everybody in an update.")
    ] = 16,
    base: MovedBase = None,
    as_json: Json = False,
) -> None:
    """Which operators make children that return to their parents' level, beside a copy and a plain
    mean. The parents are the run's two best students.
    """
    known = [*MUTATIONS, *CROSSOVERS]
    for name in operators or []:
        if name not in known:
            raise ConfigError(unknown("operator", name, known))
    chosen = [*CONTROLS, *(name for name in operators or known if name not in CONTROLS)]
    with progress() as bar:
        task = bar.add_task("updates", total=updates)
        found = measure_retention(
            folder,
            chosen,
            seeds,
            updates,
            problems,
            base,
            lambda done, total: bar.update(task, completed=done),
        )
    if as_json:
        print(json.dumps([{**asdict(one), "passes": one.passes} for one in found]))
    else:
        Console(highlight=False).print(_table(found))


def _table(found: list[Retained]) -> Table:
    table = Table(
        title="points to the better parent on the same problems, and updates until back",
        title_justify="left",
    )
    for column in ("operator", "at birth", "at the end", "updates until back", ""):
        table.add_column(column, justify="left" if column in ("operator", "") else "right")
    for one in found:
        updates = ", ".join("not" if count is None else str(count) for count in one.updates)
        mark = "control" if one.operator in CONTROLS else "" if one.passes else "fails"
        table.add_row(
            one.operator, f"{100 * one.at_birth:+.1f}", f"{100 * one.at_end:+.1f}", updates, mark
        )
    return table
