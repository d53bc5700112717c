"""The terminal: progress, notes and log messages go to standard error, so that standard output
stays data."""

import logging

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

notes = Console(stderr=True, highlight=False)
_STYLES = {logging.WARNING: "yellow", logging.ERROR: "bold red"}


def note(text: str, style: str = "") -> None:
    """Print a line as it stands: paths and model outputs may hold brackets, which are no markup."""
    notes.print(text, style=style, markup=False, soft_wrap=True)


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


def warn_if_unsafe(unsafe: bool) -> None:
    if unsafe:
        note("the sandbox runs in unsafe mode: programs may harm this machine", "bold red")
