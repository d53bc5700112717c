"""`redqueen compare`: arms or runs side by side, on the terminal as Markdown, and as files."""

import contextlib
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from redqueen.cli.options import Json
from redqueen.cli.report import check, write
from redqueen.errors import ConfigError
from redqueen.ledger.store import reader
from redqueen.report.arms import replicas
from redqueen.report.compare import MATCHES, as_markdown
from redqueen.report.compare import compare as compare_arms
from redqueen.report.escape import plain
from redqueen.report.page import COMPARISON, page
from redqueen.report.run_view import Side, sides


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs; NAME=FOLDER says which arm it is. "
            "Runs that differ in their seed alone are one arm.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.md, compare.html and compare.json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set arms or runs side by side: means and intervals over seeds, paired tests, what each spent,
    and both ways to match that.
    """
    wanted = [_split(one) for one in runs]
    check([folder for _, folder in wanted])
    with contextlib.ExitStack() as stack:
        labelled: list[tuple[str | None, Side]] = []
        for label, folder in wanted:
            connection = stack.enter_context(contextlib.closing(reader(folder)))
            connection.execute("BEGIN")
            labelled += [(label, side) for side in sides(connection, folder)]
        if len(labelled) < 2:
            raise ConfigError("a comparison needs two runs or more, or a run with several worlds")
        for _, side in labelled:
            if side.last < 1:
                raise ConfigError(f"{side.folder} has no step yet: there is nothing to compare")
        found = compare_arms(replicas(labelled))
    console = Console(highlight=False)
    console.print(
        plain(json.dumps(found) if as_json else as_markdown(found)), soft_wrap=True, markup=False
    )
    if out is not None:
        write(out / "compare.md", as_markdown(found))
        write(out / "compare.json", json.dumps(found, indent=1) + "\n")
        write(
            out / "compare.html",
            page({**found, "title": "comparison", "matches": MATCHES}, scripts=COMPARISON),
        )


def _split(named: str) -> tuple[str | None, Path]:
    """NAME=FOLDER, or a folder alone."""
    name, equals, folder = named.partition("=")
    return (name, Path(folder)) if equals and not Path(named).exists() else (None, Path(named))
