"""`redqueen crossplay`: the matrix of students and problems over time, printed and kept in the
ledger."""

import json
import math
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.console import note
from redqueen.cli.options import Json, MovedBase, RunFolder
from redqueen.evaluate.crossplay import Crossplay
from redqueen.evaluate.crossplay import crossplay as play_crossplay
from redqueen.ledger.lock import RunLock
from redqueen.ledger.store import Ledger


def crossplay(
    folder: RunFolder,
    each: Annotated[int, typer.Option(min=1, help="Most problems of one time.")] = 100,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda or cuda:1; by default the run's.")
    ] = None,
    base: MovedBase = None,
    as_json: Json = False,
) -> None:
    """Students of one time on problems of another: do later ones solve what earlier teachers posed,
    or does the race go in circles? The run needs snapshots: ledger.snapshot_every.
    """
    with RunLock(folder), Ledger.open(folder) as ledger:
        found = play_crossplay(folder, each, device, base, note)
        for world in found:
            ledger.add("evals", world.rows)
    if as_json:
        worlds = [
            {
                "world": one.world,
                "arm": one.arm,
                "times": one.times,
                "problems": one.problems,
                "solved": one.solved,
            }
            for one in found
        ]
        print(json.dumps(worlds))
        return
    for world in found:
        _show(Console(), world)


def _show(console: Console, world: Crossplay) -> None:
    console.print(
        f"{world.arm}: % solved, students of a step (down) on problems of the steps up to another (across)",
        highlight=False,
    )
    table = Table()
    table.add_column("students")
    for time in world.times:
        table.add_column(str(time), justify="right")
    for time, row in zip(world.times, world.solved, strict=True):
        table.add_row(
            f"step {time}", *("-" if math.isnan(value) else f"{100 * value:.0f}" for value in row)
        )
    console.print(table)
