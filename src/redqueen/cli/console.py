"""What people see on the terminal: progress and notes go to standard error, so that standard output
stays data."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

notes = Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """A line for people. Paths and texts of models may hold brackets: it is shown as it stands."""
    notes.print(text, markup=False, soft_wrap=True)


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
        notes.print("[bold red]the sandbox runs in unsafe mode: programs may harm this machine[/]")
