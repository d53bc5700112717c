"""What a run prints at its end: its members, and what the students gained over the base."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from redqueen.core.run import Run
from redqueen.core.world import World

if TYPE_CHECKING:
    from redqueen.evaluate.members import Verdicts


def show_final(run: Run, folder: Path, verdicts: "dict[int, Verdicts]", steps_s: float) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if len(run.worlds) == 1:
        _one_world(console, run.worlds[0], verdicts.get(0, {}), run.config.evaluate.suite)
    elif verdicts:
        _many_worlds(console, run, verdicts)
    console.print(
        f"{run.step} steps in {steps_s:.0f} s. Everything is in {folder}: run.sqlite (the ledger), checkpoints/",
        markup=False,
    )
    console.print(f"compare two runs of the same settings: redqueen digest {folder}", markup=False)


def shown_as(suite: str) -> str:
    """What the figures of a suite are called in the table of members and between steps."""
    return suite if suite and not suite.startswith("heldout") else "held-out"


def _one_world(console: Console, world: World, verdicts: "Verdicts", suite: str) -> None:
    base = verdicts.get("base")
    table = Table(title="members", title_justify="left")
    for column in ("member", "role", "rating", "±", "lower bound", shown_as(suite)):
        table.add_column(column, justify="left" if column in ("member", "role") else "right")
    for member in sorted(world.members, key=lambda member: (member.role, -member.rating.bound)):
        right = verdicts.get(member.id)
        score = "" if right is None else f"{100 * sum(right) / len(right):.1f} %"
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
    students = {name: right for name, right in verdicts.items() if name != "base"}
    if base and students:
        _differences(console, students, base, suite)


def _differences(console: Console, students: "Verdicts", base: list[bool], suite: str) -> None:
    from redqueen.evaluate.members import mean_over
    from redqueen.evaluate.statistics import paired

    scores = {member: sum(right) for member, right in students.items()}
    best, weakest = (
        max(scores, key=lambda name: scores[name]),
        min(scores, key=lambda name: scores[name]),
    )
    console.print(
        f"{suite}: the base has {100 * sum(base) / len(base):.1f} % of {len(base)} problems right (greedy). Against it, 95 % intervals:"
    )
    lines: list[tuple[str, Sequence[float], str]] = [
        ("students on average", mean_over(list(students.values())), ""),
        (f"weakest student, {weakest}", students[weakest], ""),
        (
            f"best student, {best}",
            students[best],
            "  (chosen on this very suite: no result by itself)",
        ),
    ]
    width = max(len(name) for name, _, _ in lines)
    for name, right, warning in lines:
        console.print(f"  {name:{width}} {paired(right, base)}{warning}")


def _many_worlds(console: Console, run: Run, verdicts: "dict[int, Verdicts]") -> None:
    """A row an arm, with its worlds (one a seed) as what is repeated."""
    by_arm: dict[str, list[tuple[float, float]]] = defaultdict(list)
    base = 0.0
    for world in run.worlds:
        scores = {name: sum(right) / len(right) for name, right in verdicts[world.number].items()}
        base = scores.pop("base", base)
        by_arm[world.arm].append((statistics.fmean(scores.values()), min(scores.values())))
    table = Table(
        title=f"{run.config.evaluate.suite}; the base has {100 * base:.1f} %", title_justify="left"
    )
    for column in ("arm", "worlds", "students on average", "spread over seeds", "weakest student"):
        table.add_column(column, justify="left" if column == "arm" else "right")
    for arm, found in by_arm.items():
        means, weakest = [mean for mean, _ in found], [least for _, least in found]
        spread = f"{100 * statistics.stdev(means):.1f}" if len(means) > 1 else "-"
        table.add_row(
            arm,
            str(len(found)),
            f"{100 * statistics.fmean(means):.1f} %",
            spread,
            f"{100 * statistics.fmean(weakest):.1f} %",
        )
    console.print(table)
