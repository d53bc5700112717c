"""What a run prints at its end: its members, and what the students gained over the base."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redqueen.core.run import Run
from redqueen.core.world import World
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.statistics import mean, paired_difference

Scores = dict[str, list[float]]
"""By member, or `base`: item by item, 1 where it is correct."""


def show_final(run: Run, folder: Path, result: EvalResult | None, steps_s: float) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if len(run.worlds) == 1:
        scores = result.world_scores(0) if result else {}
        _one_world(console, run.worlds[0], scores, run.config.evaluate.suite)
    elif result:
        _many_worlds(console, run, result)
    console.print(
        f"{run.step} steps in {steps_s:.0f} s. Everything is in {folder}: "
        "run.sqlite (the ledger), checkpoints/",
        markup=False,
    )
    console.print(
        f"compare two runs of equal settings with: redqueen digest {folder}", markup=False
    )


def suite_label(suite: str) -> str:
    """The column heading of a suite."""
    return suite if suite and not suite.startswith("heldout") else "held-out"


def _one_world(console: Console, world: World, scores: Scores, suite: str) -> None:
    table = Table(title="members", title_justify="left")
    for column in ("member", "role", "rating", "±", "lower bound", suite_label(suite)):
        table.add_column(column, justify="left" if column in ("member", "role") else "right")
    for member in sorted(world.members, key=lambda member: (member.role, -member.rating.bound)):
        score = f"{100 * mean(scores[member.id]):.1f} %" if member.id in scores else ""
        rating = member.rating
        table.add_row(
            member.id,
            member.role,
            f"{rating.mu:.1f}",
            f"{rating.sigma:.1f}",
            f"{rating.bound:.1f}",
            score,
        )
    console.print(table)
    students = {name: items for name, items in scores.items() if name != "base"}
    if students and "base" in scores:
        _differences(console, students, scores["base"], suite)


def _differences(console: Console, students: Scores, base: list[float], suite: str) -> None:
    means = {member: mean(scores) for member, scores in students.items()}
    best = max(means, key=lambda name: means[name])
    weakest = min(means, key=lambda name: means[name])
    console.print(
        f"{suite}: the base solves {100 * mean(base):.1f} % of {len(base)} problems (greedy). "
        "Difference to it, with 95 % intervals:"
    )
    lines: list[tuple[str, Sequence[float], str]] = [
        ("students on average", list(map(mean, zip(*students.values(), strict=True))), ""),
        (f"weakest student, {weakest}", students[weakest], ""),
        (f"best student, {best}", students[best], "  (selected on this suite: biased upwards)"),
    ]
    width = max(len(name) for name, _, _ in lines)
    for name, scores, warning in lines:
        console.print(f"  {name:{width}} {paired_difference(scores, base)}{warning}")


def _many_worlds(console: Console, run: Run, result: EvalResult) -> None:
    """A row for each arm, over its worlds, one per seed."""
    by_arm: dict[str, list[tuple[float, float]]] = defaultdict(list)
    base = mean(result.item_scores("base"))
    for world in run.worlds:
        scores = result.world_scores(world.number)
        students = [mean(items) for name, items in scores.items() if name != "base"]
        by_arm[world.arm].append((mean(students), min(students)))
    table = Table(
        title=f"{run.config.evaluate.suite}; the base has {100 * base:.1f} %", title_justify="left"
    )
    for column in ("arm", "worlds", "students on average", "spread over seeds", "weakest student"):
        table.add_column(column, justify="left" if column == "arm" else "right")
    for arm, worlds in by_arm.items():
        means, weakest = zip(*worlds, strict=True)
        spread = f"{100 * statistics.stdev(means):.1f}" if len(means) > 1 else "-"
        table.add_row(
            arm,
            str(len(worlds)),
            f"{100 * statistics.fmean(means):.1f} %",
            spread,
            f"{100 * statistics.fmean(weakest):.1f} %",
        )
    console.print(table)
