"""`redqueen eval gold`: the benchmarks' own answers through the graders, which must accept them
all; with --wrong, answers that they must reject."""

import json
import time
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redqueen.benchmarks.gold import GoldResult, grade_gold, grade_wrong
from redqueen.benchmarks.table import BENCHMARKS, expand_groups
from redqueen.cli.console import note, progress, warn_if_unsafe
from redqueen.evaluate.runner import open_graders
from redqueen.jsonl import open_output


def run(
    suites: list[str],
    data: Path | None,
    limit: int | None,
    wrong: bool,
    unsafe: bool,
    as_json: bool,
    out: Path | None,
) -> bool:
    """Whether the graders accepted every correct reply, or rejected every wrong one."""
    items = {name: BENCHMARKS[name].items(data, limit) for name in expand_groups(suites)}
    warn_if_unsafe(unsafe)
    results: dict[str, GoldResult] = {}
    grade = grade_wrong if wrong else grade_gold
    with open_graders(unsafe=unsafe) as graders:
        for name, chosen in items.items():
            started = time.monotonic()
            with progress() as bar:
                on_progress = partial(bar.advance, bar.add_task(name, total=len(chosen)))
                results[name] = result = grade(BENCHMARKS[name], chosen, graders, on_progress)
            seconds = time.monotonic() - started
            skipped = result.skipped and f"left out: {result.skipped}"
            note(f"{name}: {skipped or f'{result.n} replies in {seconds:.0f} s'}")
    graded = {name: result.to_json() for name, result in results.items() if not result.skipped}
    text = json.dumps(graded, indent=1)
    if out is not None:
        with open_output(out) as file:
            file.write(text + "\n")
    if as_json:
        print(text)
    else:
        Console().print(_table(results, wrong))
    return all(
        result.skipped or result.correct == (0 if wrong else result.n)
        for result in results.values()
    )


def _table(results: dict[str, GoldResult], wrong: bool) -> Table:
    failed = "wrong replies accepted" if wrong else "reference answers rejected"
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
