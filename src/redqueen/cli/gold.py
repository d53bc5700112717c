"""`redqueen eval gold`: the benchmarks' own answers through the graders, which must accept them
all; with --wrong, answers that they must reject. `redqueen eval forged`: cheats, which they must
reject as well."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from redqueen.benchmarks.gold import GoldResult, grade_forged, grade_gold, grade_wrong
from redqueen.benchmarks.table import BENCHMARKS, expand_groups
from redqueen.cli.console import note, print_table, progress, warn_if_unsafe
from redqueen.evaluate.runner import open_graders
from redqueen.jsonl import open_output

Fed = Literal["gold", "wrong", "forged"]
_GRADES = {"gold": grade_gold, "wrong": grade_wrong, "forged": grade_forged}
_FAILED = {
    "gold": "reference answers rejected",
    "wrong": "wrong replies accepted",
    "forged": "cheats accepted",
}


def run(
    fed: Fed,
    suites: list[str],
    data: Path | None,
    limit: int | None,
    unsafe: bool,
    as_json: bool,
    out: Path | None,
) -> bool:
    """Whether the graders accepted every correct reply, or rejected every wrong or forged one."""
    items = {name: BENCHMARKS[name].items(data, limit) for name in expand_groups(suites)}
    warn_if_unsafe(unsafe)
    results: dict[str, GoldResult] = {}
    _save(results, fed, out)  # a path that cannot be written costs nothing
    with open_graders(unsafe=unsafe) as graders:
        for name, chosen in items.items():
            started = time.monotonic()
            with progress() as bar:
                on_progress = partial(bar.advance, bar.add_task(name, total=len(chosen)))
                results[name] = result = _GRADES[fed](
                    BENCHMARKS[name], chosen, graders, on_progress
                )
            seconds = time.monotonic() - started
            graded = f"{result.n} replies in {seconds:.0f} s, {result.correct} accepted"
            note(f"{name}: {f'left out: {result.skipped}' if result.skipped else graded}")
            _save(results, fed, out)
    if as_json:
        print(_to_json(results, fed))
    else:
        print_table(_table(results, fed))
    return all(
        result.skipped or result.correct == (result.n if fed == "gold" else 0)
        for result in results.values()
    )


def _save(results: dict[str, GoldResult], fed: Fed, out: Path | None) -> None:
    if out is not None:
        with open_output(out) as file:
            file.write(_to_json(results, fed) + "\n")


def _to_json(results: dict[str, GoldResult], fed: Fed) -> str:
    rows: dict[str, Any] = {name: one.to_json() for name, one in results.items() if not one.skipped}
    if fed == "forged":
        rows = {"suites": {name: _count(result) for name, result in results.items()}}
    return json.dumps(rows, indent=1)


def _count(result: GoldResult) -> dict[str, Any]:
    counts = {"right": result.correct, "n": result.n, "slowest_s": round(result.slowest_s, 4)}
    return counts | ({"accepted": list(result.failed)} if result.failed else {})


def _table(results: dict[str, GoldResult], fed: Fed) -> Table:
    failed = _FAILED[fed]
    table = Table(title=failed, title_justify="left")
    for name in ("suite", "replies", "accepted", "%", failed):
        table.add_column(name, justify="right" if name in ("replies", "accepted", "%") else "left")
    for name, result in results.items():
        failures = ", ".join(
            f"{reply} ({result.reasons[reply]})" if reply in result.reasons else reply
            for reply in result.failed[:8]
        )
        share = "-" if result.score is None else f"{100 * result.score:.2f}"
        table.add_row(
            name, str(result.n), str(result.correct), share, result.skipped or failures or "none"
        )
    return table
