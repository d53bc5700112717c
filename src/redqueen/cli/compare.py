"""`redqueen compare`: arms or runs side by side, on the terminal as Markdown, and as files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from redqueen.cli.console import VisibleConsole
from redqueen.cli.options import Json
from redqueen.report.compare import MATCHES, compare_runs
from redqueen.report.compare_text import to_markdown
from redqueen.report.page import comparison_page, write_text


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Folders of runs; NAME=FOLDER names the arm. "
            "Runs that differ only in their seed are one arm.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.md, compare.html and compare.json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare arms or runs: means and intervals over seeds, paired tests, and compute, also matched
    per adapter and in total.
    """
    comparison = compare_runs([_split(run) for run in runs])
    text = json.dumps(comparison) if as_json else to_markdown(comparison)
    VisibleConsole().print(text, soft_wrap=True)
    if out is not None:
        write_text(out / "compare.md", to_markdown(comparison))
        write_text(out / "compare.json", json.dumps(comparison, indent=1) + "\n")
        write_text(out / "compare.html", comparison_page({**comparison, "matches": MATCHES}))


def _split(named: str) -> tuple[str | None, Path]:
    """NAME=FOLDER, or a folder alone."""
    name, equals, folder = named.partition("=")
    return (name, Path(folder)) if equals and not Path(named).exists() else (None, Path(named))
