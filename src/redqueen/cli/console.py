"""The terminal: progress, notes and log messages go to standard error, so that standard output
stays data. Whatever is printed may hold what models, or the files of others, say."""

import logging
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from redqueen.report.escape import escape_controls


class VisibleConsole(Console):
    """Shows control characters, instead of sending them to the terminal. Texts are no markup,
    unless it is asked for. In a file or a pipe, lines are as long as they are."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})
        self.soft_wrap = self.soft_wrap or not self.is_terminal

    def render_str(self, text: str, **options: Any) -> Text:
        """Before widths are measured."""
        return super().render_str(escape_controls(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield segment._replace(text=escape_controls(segment.text))


notes = VisibleConsole(stderr=True)
_LINE_EVERY_S = 20.0
_WIDE = 1000
"""Characters: more than any table has."""
_STYLES = {logging.WARNING: "yellow", logging.ERROR: "bold red"}


def note(text: str, style: str = "") -> None:
    """Print a line as it stands: paths and model outputs may hold brackets, which are no markup,
    and control characters, which are made visible."""
    notes.print(text, style=style, soft_wrap=True)


def print_table(table: Table, console: Console | None = None) -> None:
    """A table of which nothing is cut: in a file or a pipe it is as wide as it has to be, in a
    narrow terminal its cells are wrapped."""
    console = console or VisibleConsole()
    for column in table.columns:
        column.overflow = "fold"
    if not console.is_terminal:
        whole = console.measure(table, options=console.options.update(width=_WIDE)).maximum
        console.width = max(whole, console.width)
    console.print(table)


def print_rows(rows: Sequence[Sequence[str]], console: Console) -> None:
    """Cells below each other. In a terminal the last one is wrapped; in a file or a pipe every row
    is a line."""
    grid = Table.grid(padding=(0, 1))
    for row in rows:
        grid.add_row(*row)
    if console.is_terminal:
        console.print(grid)
        return
    with console.capture() as captured:
        print_table(grid, console)
    for line in captured.get().splitlines():
        console.print(Text(line.rstrip()))


def note_others(cores: float) -> None:
    """Say if other programs used this many cores during a measurement of speed."""
    if cores > 0.2:
        note(
            f"other programs used {cores:.1f} cores meanwhile: measure again without them", "yellow"
        )


def show_traceback(error: Exception) -> None:
    """A bug's: its message may quote a file."""
    sys.stderr.write(escape_controls("".join(traceback.format_exception(error))))


class _NoteHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record), _STYLES.get(record.levelno, ""))


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
