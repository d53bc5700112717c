"""`redqueen report`: the page of one or more runs, pictures of its figures, and what it says in the
terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from redqueen.cli.options import RunFolders
from redqueen.errors import ConfigError, DataError
from redqueen.ledger.store import FILE
from redqueen.report.chromium import NAMES, find_chromium
from redqueen.report.escape import plain
from redqueen.report.gather import gather_runs
from redqueen.report.page import page, title_of

_MARKS = {"fact": "  ", "good": "[green]✓[/] ", "warning": "[yellow]![/] "}


def report(
    folders: RunFolders,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; by default report.html in the run's folder, "
            "or here for several runs."
        ),
    ] = None,
    png: Annotated[
        bool, typer.Option("--png", help="Also write every figure as a picture, beside the report.")
    ] = False,
    problem: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Only print the problem whose key begins like this, with all attempts.",
        ),
    ] = None,
) -> None:
    """Make report.html from a run's ledger: what happened, what looks suspicious, figures, and
    problems to look at one by one.
    """
    check(folders)
    if problem is not None:
        _show(folders[0], problem)
    else:
        write_report(folders, out, png)


def _show(folder: Path, key: str) -> None:
    """One problem on the terminal."""
    from redqueen.report.show import show_problem

    Console(highlight=False).print(
        show_problem(folder, key), markup=False, soft_wrap=True, emoji=False
    )


def write_report(folders: Sequence[Path], out: Path | None = None, png: bool = False) -> None:
    """Write the page, and print what it says first."""
    if png and find_chromium() is None:
        raise ConfigError(
            f"--png needs a Chromium to draw with; none of {', '.join(NAMES)} is in the path (Debian, Ubuntu: apt install chromium)"
        )
    path = out or (folders[0] / "report.html" if len(folders) == 1 else Path("report.html"))
    found = gather_runs(folders)
    write(path, page({"sides": found, "title": title_of(folders)}))
    console = Console(highlight=False)
    for side in found:
        if len(found) > 1:
            console.print(f"[bold]{escape(plain(side['name']))}[/]")
        for sentence in side["story"]:
            console.print(_MARKS[sentence["level"]] + escape(plain(sentence["text"])))
    console.print(
        f"report: {path} ({path.stat().st_size / 1e6:.1f} MB)", soft_wrap=True, markup=False
    )
    if png:
        from redqueen.report.pictures import photograph

        pictures = photograph(path, path.with_name(f"{path.stem}-figures"))
        console.print(
            f"figures: {len(pictures)} PNG files in {pictures[0].parent}",
            soft_wrap=True,
            markup=False,
        )


def check(folders: Sequence[Path]) -> None:
    """Refuse a folder without a run, before anything is made."""
    for folder in folders:
        if not (folder / FILE).is_file():
            raise ConfigError(f"there is no run in {folder}: `redqueen runs` lists those there are")


def write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror}. Name another file with --out"
        ) from error
