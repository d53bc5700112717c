"""`redqueen crossplay`: the matrix of students and problems over time, printed and kept in the
ledger."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.console import VisibleConsole, print_table, warn_if_unsafe
from redqueen.cli.options import Json, MovedBase, RunFolder, SandboxMode
from redqueen.evaluate.crossplay import Crossplay, read_snapshots
from redqueen.evaluate.crossplay import crossplay as play_crossplay
from redqueen.ledger.lock import RunLock
from redqueen.ledger.store import Ledger


def crossplay(
    folder: RunFolder,
    each: Annotated[int, typer.Option(min=1, help="At most this many problems of a step.")] = 100,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda or cuda:1; by default the run's.")
    ] = None,
    base: MovedBase = None,
    sandbox: SandboxMode = None,
    as_json: Json = False,
) -> None:
    """Give students of one step the problems of another: do later ones solve what earlier teachers
    posed, or does the race go in circles? The run needs snapshots: ledger.snapshot_every.
    """
    unsafe = sandbox == "unsafe"
    warn_if_unsafe(unsafe)
    read_snapshots(folder)  # before the ledger is opened: another edition's cannot be written to
    with RunLock(folder), Ledger.open(folder) as ledger:
        worlds = play_crossplay(folder, each, device=device, base=base, unsafe=unsafe)
        if as_json:
            print(json.dumps([world.to_json() for world in worlds]))
        else:
            for world in worlds:
                _show(VisibleConsole(), world)
        # last: what was measured is shown even where the disk is full
        ledger.add("evals", [row for world in worlds for row in world.rows])


def _show(console: Console, world: Crossplay) -> None:
    title = (
        f"{world.arm}: % solved by the students of a step (rows) of the problems posed up to a "
        "step (columns)"
    )
    console.print(title)
    table = Table()
    table.add_column("students")
    for step in world.steps:
        table.add_column(str(step), justify="right")
    for step, row in zip(world.steps, world.solved, strict=True):
        cells = ["-" if value is None else f"{100 * value:.0f}" for value in row]
        table.add_row(f"step {step}", *cells)
    print_table(table, console)
