"""`redqueen runs`: the runs of a folder, as a table or as JSON."""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from redqueen.ledger.runs import list_runs


def show(root: Path, as_json: bool) -> None:
    found = list_runs(root)
    if as_json:
        print(json.dumps([{**asdict(run), "folder": str(run.folder)} for run in found]))  # noqa: T201
        return
    if not found:
        Console().print(f"no runs in {root}. `redqueen run` makes one.", highlight=False)
        return
    table = Table("folder", "steps", "base", "created", "now")
    for run in found:
        table.add_row(
            *(
                escape(text)
                for text in (
                    str(run.folder),
                    f"{run.steps_done}/{run.steps_wanted or '?'}",
                    run.base,
                    run.created,
                    "running" if run.active else run.problem[:60],
                )
            )
        )
    Console().print(table)
