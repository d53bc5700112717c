"""`redqueen eval gold`: the benchmarks' own answers through the grading, which must all be right;
with --wrong, answers that are not."""

import json
import time
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redqueen.benchmarks.gold import GoldResult, grade_gold, grade_wrong
from redqueen.benchmarks.maths.judge import MathsJudge
from redqueen.benchmarks.suite import Judges
from redqueen.benchmarks.suites import BENCHMARKS, expand
from redqueen.cli.console import notes, progress, warn_if_unsafe
from redqueen.config.sandbox import SandboxConfig
from redqueen.evaluate.members import benchmark_exam
from redqueen.jsonl import open_output
from redqueen.sandbox.pool import SandboxPool


def run(
    suites: list[str],
    data: Path | None,
    limit: int | None,
    wrong: bool,
    unsafe: bool,
    as_json: bool,
    out: Path | None,
) -> bool:
    """Grade what is known to be right, or wrong; the answer is whether the grader said so every
    time."""
    items = {name: benchmark_exam(name, data, limit).items for name in expand(suites)}
    warn_if_unsafe(unsafe)
    found: dict[str, GoldResult] = {}
    grade = grade_wrong if wrong else grade_gold
    with SandboxPool(SandboxConfig(unsafe=unsafe)) as sandbox, MathsJudge() as maths:
        for name, chosen in items.items():
            started = time.monotonic()
            with progress() as bar:
                found[name] = grade(
                    BENCHMARKS[name],
                    chosen,
                    Judges(sandbox, maths),
                    partial(bar.advance, bar.add_task(name, total=len(chosen))),
                )
            said = found[name].skipped and f"left out: {found[name].skipped}"
            notes.print(
                f"{name}: {said or f'{found[name].n} replies in {time.monotonic() - started:.0f} s'}",
                soft_wrap=True,
            )
    text = json.dumps(
        {name: one.as_json() for name, one in found.items() if not one.skipped}, indent=1
    )
    if out is not None:
        with open_output(out) as file:
            file.write(text + "\n")
    if as_json:
        print(text)
    else:
        Console().print(_table(found, wrong))
    return all(one.skipped or one.right == (0 if wrong else one.n) for one in found.values())


def _table(found: dict[str, GoldResult], wrong: bool) -> Table:
    title = (
        "wrong answers that were taken for right" if wrong else "reference answers that are right"
    )
    table = Table(title=title, title_justify="left")
    for name in (
        "suite",
        "replies",
        "right",
        "%",
        "wrong answers taken for right" if wrong else "not right",
    ):
        table.add_column(name, justify="right" if name in ("replies", "right", "%") else "left")
    for name, one in found.items():
        failed = ", ".join(
            f"{which} ({one.reasons[which]})" if which in one.reasons else which
            for which in one.failed[:8]
        )
        share = "-" if one.score is None else f"{100 * one.score:.2f}"
        table.add_row(name, str(one.n), str(one.right), share, one.skipped or failed or "none")
    return table
