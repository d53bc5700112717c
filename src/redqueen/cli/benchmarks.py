"""`redqueen eval TARGET` on suites of questions: attempts, figures, and tables of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from redqueen.benchmarks.suite import Judges, Style, Suite
from redqueen.cli.console import notes, progress
from redqueen.errors import ConfigError
from redqueen.evaluate.attempts import Attempted, Journal, Setting, attempt, drawn
from redqueen.evaluate.figures import (
    Figures,
    figures,
    figures_by_tier,
    of_attempts,
    population_figures,
)
from redqueen.evaluate.members import Exam
from redqueen.tasks import KINDS

if TYPE_CHECKING:
    from redqueen.evaluate.targets import Target


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    data: Path | None = None
    """A folder of benchmark files; None: REDQUEEN_DATA, else the hub."""
    samples: int = 1
    temperature: float | None = None
    """None: greedy for one sample, 0.8 for several."""
    limit: int | None = None
    """The first so many items; None: all."""
    max_tokens: int | None = None
    style: Style | None = None
    """None: chat for a base with a chat template."""
    journal: Path | None = None

    def __post_init__(self) -> None:
        if self.samples > 1 and self.temperature == 0:
            raise ConfigError(
                f"--samples {self.samples} at temperature 0 would write the same reply {self.samples} times: give --temperature 0.8, say"
            )


Finished = Callable[[Exam, Setting, list[Attempted]], None]
"""Told of each suite that is done."""


def score(
    exams: Sequence[Exam],
    target: "Target",
    judges: Judges,
    options: BenchmarkOptions,
    finished: Finished,
) -> dict[str, Figures]:
    """The figures of each suite."""
    found = {}
    for exam in exams:
        suite, started = exam.suite, time.monotonic()
        setting = setting_of(suite, target, options)
        with progress() as bar:
            total = len(exam.items) * len(setting.members) * setting.samples
            done = partial(bar.advance, bar.add_task(suite.name, total=total))
            attempts = attempt(
                suite, exam.items, setting, target, judges, Journal(options.journal), done
            )
        found[suite.name] = _figures(exam, setting, attempts, target)
        said = f"{suite.name}: {total} replies in {time.monotonic() - started:.0f} s" + (
            f" ({suite.note})" if suite.note else ""
        )
        notes.print(said, soft_wrap=True)
        finished(exam, setting, attempts)
    return found


def _figures(
    exam: Exam, setting: Setting, attempts: Sequence[Attempted], target: "Target"
) -> Figures:
    if target.is_population:
        assert target.chosen is not None
        return population_figures(setting, attempts, target.chosen.populations, exam.suite.note)
    if exam.has_tiers and target.is_base:
        return figures_by_tier(setting, exam.items, attempts)
    return figures(setting, attempts, exam.suite.note)


def setting_of(suite: Suite, target: "Target", options: BenchmarkOptions) -> Setting:
    from redqueen.evaluate.targets import style_of

    temperature = (
        options.temperature
        if options.temperature is not None
        else 0.0
        if options.samples == 1
        else 0.8
    )
    style = options.style or style_of(target.engine.base)
    max_tokens = options.max_tokens or suite.max_tokens
    dtype = str(target.base.dtype).removeprefix("torch.")
    return Setting(
        suite.name,
        suite.prompt_version,
        style,
        options.samples,
        temperature,
        max_tokens,
        target.members,
        dtype,
        target.of,
    )


def table(found: dict[str, Figures], title: str) -> Table:
    result = Table(title=title, title_justify="left")
    compared = any("against_base" in row for row in found.values())
    best = max((int(k) for row in found.values() for k in row.get("pass_at", {})), default=0)
    columns = (
        ["suite", "items", "% right (95 %)"] + ([f"% pass@{best}"] if best else []) + ["cut off"]
    )
    for name in columns + (["base", "difference (95 %)", "p"] if compared else []):
        result.add_column(name, justify="left" if name == "suite" else "right")
    for name, row in found.items():
        cells = (
            [name, str(row["n"]), share(row)]
            + ([f"{100 * row['pass_at'][str(best)]:.1f}"] if best else [])
            + [str(row["truncated"])]
        )
        result.add_row(*cells, *(_compared(row) if compared else []))
    return result


def tier_table(exam: Exam, setting: Setting, attempts: Sequence[Attempted]) -> Table:
    """A row for each tier, a column for each kind, and everything together."""
    malformed = sum(one.reason.startswith("malformed") for one in attempts)
    title = f"{exam.suite.name}: % right, {drawn(setting.samples, setting.temperature)} (95 % interval); {malformed} of {len(attempts)} malformed"
    if setting.samples > 1:
        title += f"; pass@{setting.samples} {100 * of_attempts(setting, attempts)['pass_at'][str(setting.samples)]:.1f} %"
    of_item = {item.id: item for item in exam.items}
    kinds = [kind for kind in KINDS if any(item.kind == kind for item in exam.items)]

    def cell(tier: int | None, kind: str | None) -> str:
        chosen = [
            one
            for one in attempts
            if tier in (None, of_item[one.item].tier) and kind in (None, of_item[one.item].kind)
        ]
        return share(of_attempts(setting, chosen)) if chosen else "-"

    result = Table(title=title, title_justify="left")
    for name in ("tier", *kinds, "all"):
        result.add_column(name, justify="right")
    for tier in sorted({item.tier for item in exam.items}):
        result.add_row(str(tier), *(cell(tier, kind) for kind in (*kinds, None)))
    result.add_section()
    result.add_row("all", *(cell(None, kind) for kind in (*kinds, None)))
    return result


def share(row: dict[str, Any]) -> str:
    """A share with its interval, in %."""
    if not row["n"]:
        return "-"
    low, high = row["interval"]
    return f"{100 * row['accuracy']:.1f} ({100 * low:.0f}-{100 * high:.0f})"


def _compared(row: dict[str, Any]) -> list[str]:
    return [share(row["base"]), *_against(row["against_base"])]


def _against(found: dict[str, Any]) -> list[str]:
    low, high = found["interval"]
    return [
        f"{100 * found['difference']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})",
        f"{found['p']:.3f}",
    ]


def population_table(suite: str, row: Figures, shown: Sequence[str]) -> Table:
    """A row for the base, for each member that is shown, and for what each population does
    together."""
    best = max((int(k) for k in row["base"].get("pass_at", {})), default=0)
    result = Table(
        title=f"{suite}: {row['n']} items, {drawn(row['samples'], row['temperature'])}",
        title_justify="left",
    )
    for name in (
        ["", "% right (95 %)"]
        + ([f"% pass@{best}"] if best else [])
        + ["against base (95 %)", "p", "cut off"]
    ):
        result.add_column(name, justify="right" if name else "left")
    _add(result, "base", row["base"], best)
    for name in shown:
        _add(result, name, row["members"][name], best)
    for one in row["populations"]:
        result.add_section()
        where = f" of {one['arm']} ({one['world']})" if len(row["populations"]) > 1 else ""
        _add(result, f"mean of {len(one['members'])} members{where}", one["mean"], best)
        if "majority_vote" in one:
            partly = (
                f", {one['majority_vote']['n']} items"
                if one["majority_vote"]["n"] < row["n"]
                else ""
            )
            _add(result, f"majority vote{where}{partly}", one["majority_vote"], best)
        _add(result, f"best of members{where}", one["best_of_members"], best)
        if "base_as_often" in one["best_of_members"]:
            _add(
                result,
                f"best of {len(one['members'])} tries of the base",
                one["best_of_members"]["base_as_often"],
                best,
            )
    return result


def _add(result: Table, name: str, row: Figures, best: int) -> None:
    several = [f"{100 * row['pass_at'][str(best)]:.1f}" if "pass_at" in row else ""] if best else []
    against = _against(row["against_base"]) if "against_base" in row else ["", ""]
    result.add_row(name, share(row), *several, *against, str(row.get("truncated", "")))
