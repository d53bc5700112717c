"""`redqueen runs`: the runs in a folder, as a table or as JSON."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from redqueen.cli.console import VisibleConsole, note, print_table
from redqueen.cli.options import Json
from redqueen.errors import ConfigError
from redqueen.ledger.runs import RunSummary, list_runs

DEFAULT_ROOT = Path("runs")
_UNMEASURED = "done, not measured"


def runs(
    root: Annotated[Path, typer.Argument(help="Folder with runs.")] = DEFAULT_ROOT,
    as_json: Json = False,
) -> None:
    """List the runs in a folder."""
    if root.exists() and not root.is_dir():
        raise ConfigError(f"{root} is not a folder: name one that has runs in it")
    if not root.exists() and root != DEFAULT_ROOT:
        raise ConfigError(f"there is no folder {root}: name one that has runs in it")
    summaries = list_runs(root)
    if as_json:
        print(json.dumps([{**asdict(run), "folder": str(run.folder)} for run in summaries]))
        return
    if not summaries:
        VisibleConsole().print(
            f"no runs in {root}. `redqueen run` starts one.",
            soft_wrap=True,
        )
        return
    table = Table("folder", "steps", "base", "created", "state")
    for run in summaries:
        cells = (
            str(run.folder),
            f"{run.steps_done}/{run.steps_wanted or '?'}",
            run.base,
            run.created[:16].replace("T", " "),
            _state(run),
        )
        table.add_row(*cells)
    print_table(table)
    if any(_state(run) == _UNMEASURED for run in summaries):
        note(f"{_UNMEASURED}: `redqueen resume FOLDER` measures what the run was to measure")


def _state(run: RunSummary) -> str:
    if run.active:
        return "running"
    if run.problem:
        return run.problem[:60]
    if run.steps_wanted is not None and run.steps_done >= run.steps_wanted:
        return "done" if run.measured or run.packed else _UNMEASURED
    return run.ended[:60] or ("packed" if run.packed else "can be resumed")
