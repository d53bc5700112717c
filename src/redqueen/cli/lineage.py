"""`redqueen lineage`: who was born of whom, and which layers and directions a child got."""

import json
from contextlib import closing
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.console import VisibleConsole, print_table
from redqueen.cli.options import Json, MovedBase, RunFolder
from redqueen.evaluate.provenance import Provenance, provenance
from redqueen.ledger.run_reader import RunReader


def lineage(
    folder: RunFolder,
    member: Annotated[
        str | None, typer.Option(help="A child: compare its weights with its parents'.")
    ] = None,
    world: Annotated[int, typer.Option(min=0, help="Of a run with several.")] = 0,
    base: MovedBase = None,
    as_json: Json = False,
) -> None:
    """List births and deaths; with --member, which layers and singular directions a child got from
    whom. Weights are those of the first snapshot since its birth that has the parents too
    (ledger.snapshot_every), else of the newest checkpoint.
    """
    console = VisibleConsole()
    if member is not None:
        found = provenance(folder, member, world, base)
        if as_json:
            print(json.dumps(found.to_json()))
        else:
            _show_child(console, found)
        return
    with closing(RunReader(folder)) as reader:
        rows = list(reader.lineage(world))
    if as_json:
        print(json.dumps([dict(row) for row in rows]))
        return
    table = Table("member", "born", "died", "operator", "parents", "rating")
    for row in rows:
        died = "" if row["died"] is None else str(row["died"])
        parents = ", ".join(row["parents"])
        table.add_row(
            row["member"], str(row["born"]), died, row["operator"], parents, f"{row['mu']:.1f}"
        )
    print_table(table, console)


def _show_child(console: Console, found: Provenance) -> None:
    trained = "" if found.step == found.born else f", trained until step {found.step}"
    console.print(
        f"{found.child}: {found.operator} of {' and '.join(found.parents)} at step "
        f"{found.born}{trained}"
    )
    table = Table("projection", "size")
    for parent in found.parents:
        table.add_column(f"cosine {parent}", justify="right")
        table.add_column(f"weight {parent}", justify="right")
    table.add_column("explained", justify="right")
    for who in (*found.parents, "own"):
        table.add_column(f"directions {who}", justify="right")
    for one in found.projections:
        pairs = zip(one.cosines, one.weights, strict=True)
        shares = [f"{value:+.2f}" for pair in pairs for value in pair]
        table.add_row(
            one.projection.removeprefix("model.").removeprefix("layers."),
            f"{one.size:.3g}",
            *shares,
            f"{100 * one.explained:.0f} %",
            *map(str, one.directions),
        )
    print_table(table, console)
    console.print(
        "weight: the child as a sum of its parents, by least squares; explained: how much of it "
        "that sum has; directions: singular directions of which a parent has half or more."
    )
