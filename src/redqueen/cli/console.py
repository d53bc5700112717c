"""The terminal: progress, notes and log messages go to standard error, so that standard output
stays data."""

import logging
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from redqueen.report.escape import escape_controls

notes = Console(stderr=True, highlight=False)
_LINE_EVERY_S = 20.0
_WIDE = 1000
"""Characters: more than any table has."""
_STYLES = {logging.WARNING: "yellow", logging.ERROR: "bold red"}


def note(text: str, style: str = "") -> None:
    """Print a line as it stands: paths and model outputs may hold brackets, which are no markup,
    and control characters, which are made visible."""
    notes.print(escape_controls(text), style=style, markup=False, emoji=False, soft_wrap=True)


def note_others(cores: float) -> None:
    """Say if other programs used this many cores during a measurement of speed."""
    if cores > 0.2:
        note(
            f"other programs used {cores:.1f} cores meanwhile: measure again without them", "yellow"
        )


class _NoteHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record), _STYLES.get(record.levelno, ""))


def print_table(table: Table, console: Console | None = None) -> None:
    """A table of which nothing is cut: in a file or a pipe it is as wide as it has to be, in a
    narrow terminal its cells are wrapped."""
    console = console or Console(highlight=False)
    for column in table.columns:
        column.overflow = "fold"
    if not console.is_terminal:
        whole = console.measure(table, options=console.options.update(width=_WIDE)).maximum
        console = Console(file=console.file, width=max(whole, console.width), highlight=False)
    console.print(table)


def show_log() -> None:
    """Show what the library logs. A second call changes nothing."""
    logger = logging.getLogger("redqueen")
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, _NoteHandler) for handler in logger.handlers):
        logger.addHandler(_NoteHandler())


def progress() -> Progress:
    """A progress bar; silent where standard error is not a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=notes,
        disable=not notes.is_terminal,
    )


class SlowLines:
    """Progress where standard error is not a terminal: a line now and then."""

    def __init__(self, what: str) -> None:
        self.what, self.said = what, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if not notes.is_terminal and time.monotonic() - self.said >= _LINE_EVERY_S:
            self.said = time.monotonic()
            note(f"{self.what}: {done:,} of {total:,} replies")


def warn_if_unsafe(unsafe: bool) -> None:
    if unsafe:
        note("the sandbox runs in unsafe mode: programs may harm this machine", "bold red")
