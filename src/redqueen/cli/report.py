"""`redqueen report`: the page of one or more runs, its figures as pictures, and its findings in the
terminal."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from redqueen.cli.console import VisibleConsole, print_rows
from redqueen.cli.options import RunFolders
from redqueen.config.sandbox import SandboxConfig
from redqueen.report.chromium import require_chromium
from redqueen.report.page import gather_report, report_page, write_text
from redqueen.report.show import show_problem
from redqueen.sandbox.backends import open_sandbox

_MARKS = {"fact": "·", "good": "[green]✓[/]", "warning": "[yellow]![/]"}


def report(
    folders: RunFolders,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; by default report.html in the run's folder, "
            "or here for several runs and packed ledgers."
        ),
    ] = None,
    png: Annotated[
        bool, typer.Option("--png", help="Also write every figure as a PNG, beside the report.")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Mark where reasoning departs from execution: programs run again, in the sandbox.",
        ),
    ] = False,
    problem: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Only print the problem whose key starts with this, with all attempts.",
        ),
    ] = None,
) -> None:
    """Write report.html from a run's ledger: what happened, what looks suspicious, figures, and
    problems to read one by one.
    """
    if problem is None:
        write_report(folders, out, png, explain)
        return
    text = show_problem(folders[0], problem)
    VisibleConsole().print(text, soft_wrap=True)


def write_report(
    folders: Sequence[Path], out: Path | None = None, png: bool = False, explain: bool = False
) -> None:
    """Write the page, and print its findings."""
    if png:
        require_chromium()
    beside = len(folders) == 1 and folders[0].is_dir()
    path = out or (folders[0] / "report.html" if beside else Path("report.html"))
    with ExitStack() as stack:
        sandbox = stack.enter_context(open_sandbox(SandboxConfig())) if explain else None
        data = gather_report(folders, sandbox=sandbox)
    write_text(path, report_page(data))
    console = VisibleConsole(markup=True)
    for view in data["views"]:
        if len(data["views"]) > 1:
            console.print(f"[bold]{escape(view['name'])}[/]")
        findings = view["findings"]
        rows = [(_MARKS[finding["level"]], escape(finding["text"])) for finding in findings]
        print_rows(rows, console)
    size_mb = path.stat().st_size / 1e6
    console.print(f"report: {path} ({size_mb:.1f} MB)", soft_wrap=True, markup=False)
    if png:
        from redqueen.report.screenshots import screenshot_figures

        figures = screenshot_figures(path, path.with_name(f"{path.stem}-figures"))
        where = f"figures: {len(figures)} PNG files in {figures[0].parent}"
        console.print(where, soft_wrap=True, markup=False)
