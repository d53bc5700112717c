"""`redqueen plot`: a figure of a run as a file, for papers."""

from pathlib import Path
from typing import Annotated

import typer

from redqueen.cli.console import VisibleConsole
from redqueen.cli.options import RunFolder
from redqueen.report.plots import FIGURES
from redqueen.report.plots import plot as draw


def plot(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(help="File to write: .pdf, .svg or .png.")],
    figure: Annotated[str, typer.Option(help=f"One of {', '.join(FIGURES)}.")] = "race",
    world: Annotated[int, typer.Option(min=0, help="Which world of a study.")] = 0,
) -> None:
    """Draw a figure of a run for a paper; needs matplotlib, the extra `plot`. For every figure of
    the report as a picture: `redqueen report --png`.
    """
    path = draw(folder, figure, out, world)
    VisibleConsole().print(f"drawn: {path}", soft_wrap=True)
