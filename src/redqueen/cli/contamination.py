"""`redqueen contamination`: invented problems against the items of benchmarks."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from redqueen.cli.console import VisibleConsole, print_table
from redqueen.cli.options import Json, RunFolder
from redqueen.evaluate.suites import expand_names
from redqueen.report.contamination import WORDS, Contamination, find_contamination


def contamination(
    folder: RunFolder,
    suite: Annotated[
        list[str] | None,
        typer.Option(help="A benchmark, code, math or all; may be repeated. By default code."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of benchmark files; by default REDQUEEN_DATA, else the hub."),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Matches of each suite to show.")] = 5,
    as_json: Json = False,
) -> None:
    """Say which invented problems have a benchmark's program, or a long piece of its text: what a
    run has trained on and should not be measured by.
    """
    found = find_contamination(folder, expand_names(suite or ["code"]), data)
    if as_json:
        typer.echo(json.dumps({result.suite: result.to_json() for result in found}))
        return
    console = VisibleConsole()
    print_table(_table(found), console)
    for result in found:
        for match in result.matches[:show]:
            how = "the same program" if match.same_program else f"{100 * match.shared:.0f} %"
            text = f"{result.suite}: problem {match.problem} and item {match.item}: {how}"
            console.print(text)


def _table(found: list[Contamination]) -> Table:
    table = Table(title=f"{found[0].problems:,} invented problems", title_justify="left")
    for column in ("suite", "items", "same program", f"{WORDS} words in common"):
        table.add_column(column, justify="left" if column == "suite" else "right")
    for result in found:
        counts = result.items, result.same_program, result.common_text
        table.add_row(result.suite, *(f"{count:,}" for count in counts))
    return table
