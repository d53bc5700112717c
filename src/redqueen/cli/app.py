"""The command line: which commands there are, and where each one is."""

import os
import signal
import sys
from typing import Annotated

import typer

from redqueen import __version__
from redqueen.cli.lazy import new_app
from redqueen.errors import RedQueenError, explain_disk

COMMANDS = {
    "doctor": ("redqueen.cli.doctor:doctor", "Say what this machine can do."),
    "config": ("redqueen.cli.config:config", "Print every setting with its meaning, as TOML."),
    "run": ("redqueen.cli.run:run", "Play the arms race."),
    "study": ("redqueen.cli.run:study", "Play several sets of rules as worlds of one run."),
    "resume": ("redqueen.cli.run:resume", "Go on with a run that was stopped or killed."),
    "fork": ("redqueen.cli.run:fork", "Start a new run from another's checkpoint."),
    "runs": ("redqueen.cli.runs:runs", "List the runs in a folder."),
    "watch": ("redqueen.cli.watch:watch", "Show a run in a browser while it goes on."),
    "report": ("redqueen.cli.report:report", "Make report.html from a run's ledger."),
    "compare": ("redqueen.cli.compare:compare", "Set arms or runs side by side, with tests."),
    "plot": ("redqueen.cli.plot:plot", "Draw a figure of a run as PDF, SVG or PNG."),
    "lineage": ("redqueen.cli.lineage:lineage", "List births; say what a child got from whom."),
    "digest": ("redqueen.cli.digest:digest", "Print one hash over all records of a run."),
    "play": ("redqueen.cli.play:play", "Answer a run's problems yourself, against its students."),
    "chat": ("redqueen.cli.chat:chat", "Talk to a member of a run."),
    "eval": ("redqueen.cli.evaluate:evaluate", "Score a base, an adapter or a run's members."),
    "crossplay": (
        "redqueen.cli.crossplay:crossplay",
        "Give later students earlier problems, and the reverse.",
    ),
    "retention": (
        "redqueen.cli.retention:retention",
        "Find operators whose children return to their parents' level.",
    ),
    "explain": (
        "redqueen.cli.explain:explain",
        "Set reasoning against execution: agreement and faithfulness.",
    ),
    "contamination": (
        "redqueen.cli.contamination:contamination",
        "Look for benchmark items among a run's problems.",
    ),
    "bench": ("redqueen.cli.bench:app", "Measure speed, and simulate selection."),
    "export": ("redqueen.cli.export:export", "Take members, problems or attempts out of a run."),
    "open": ("redqueen.cli.open:open_packed", "Say what a packed ledger holds."),
    "serve": ("redqueen.cli.serve:serve", "Train and sample for many people on one device."),
    "verify": ("redqueen.cli.verify:verify", "Turn proposals into verified problems."),
    "kind": ("redqueen.cli.kind:app", "Play both sides of a task kind on written texts."),
    "sandbox": ("redqueen.cli.sandbox:app", "Run hostile programs behind walls."),
    "cluster": ("redqueen.cli.cluster:app", "Check whether a run would work on many devices."),
    "pawn": ("redqueen.cli.pawn:app", "Train the bundled base, and see what it learns from."),
}
_SECTIONS = {
    "Play a race": "doctor config run study resume fork runs",
    "See what happened": "watch report compare plot lineage digest play chat",
    "Measure": "eval crossplay retention explain contamination bench",
    "Use the results": "export open serve",
    "Tools": "verify kind sandbox cluster pawn",
}


app = new_app(
    COMMANDS,
    _SECTIONS,
    name="redqueen",
    help="Red Queen: teachers and students as LoRA adapters on one frozen model, "
    "in an arms race of verifiable problems. Begin with `redqueen doctor`, then `redqueen run`; "
    "`redqueen COMMAND --help` explains a command.",
    no_args_is_help=True,
    add_completion=True,
)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    from redqueen.cli.console import show_log

    show_log()


def main() -> None:
    """The entry point: errors a user can cause, and those of disks, are messages, not tracebacks.
    SIGTERM ends a command as Ctrl-C does, so that it leaves nothing half done. While a shell
    completes a line, both end it without a word."""
    completes = "_REDQUEEN_COMPLETE" in os.environ
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL if completes else _end)
    try:
        with explain_disk():
            app()
    except RedQueenError as error:
        from redqueen.report.escape import escape_controls  # errors quote files and models

        typer.echo(f"redqueen: {escape_controls(str(error))}", err=True)
        sys.exit(2)
    except Exception as error:  # noqa: BLE001  (a bug of ours, and its message may be a file's)
        from redqueen.cli.console import show_traceback

        show_traceback(error)
        sys.exit(1)


def _end(number: int, frame: object) -> None:
    # not by a stream: the signal may have come while that was being written to
    os.write(2, f"redqueen: ended by {signal.Signals(number).name}\n".encode())
    raise KeyboardInterrupt(number)
