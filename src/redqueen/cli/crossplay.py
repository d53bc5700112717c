"""`redqueen crossplay`: the matrix of students and problems over time, printed and kept in the
ledger."""

import json
import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redqueen.cli.console import note
from redqueen.evaluate.crossplay import Crossplay, crossplay
from redqueen.ledger.lock import RunLock
from redqueen.ledger.store import Ledger


def run(folder: Path, each: int, device: str | None, base: str | None, as_json: bool) -> None:
    with RunLock(folder), Ledger.open(folder) as ledger:
        found = crossplay(folder, each, device, base, note)
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
