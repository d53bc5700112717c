"""`redqueen eval TARGET` on benchmark suites: attempts, figures, and a table of them."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from redqueen.errors import ConfigError
from redqueen.evaluate.attempts import Journal, Setting, attempt, figures
from redqueen.evaluate.data import read_rows
from redqueen.evaluate.suite import Item, Judges, Style, Suite
from redqueen.evaluate.suites import BENCHMARKS
from redqueen.terminal import notes, progress

if TYPE_CHECKING:
    from redqueen.evaluate.target import Target


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


def load_items(names: list[str], data: Path | None, limit: int | None) -> dict[str, list[Item]]:
    """The items of every suite, before anything large is loaded: missing data is found at once."""
    return {name: BENCHMARKS[name].items(read_rows(name, BENCHMARKS[name].source, data))[:limit] for name in names}


def score(items: dict[str, list[Item]], target: "Target", judges: Judges, options: BenchmarkOptions) -> dict[str, dict[str, Any]]:
    """The figures of each suite."""
    found = {}
    for name, chosen in items.items():
        suite, started = BENCHMARKS[name], time.monotonic()
        setting = _setting(suite, target, options)
        with progress() as bar:
            total = len(chosen) * len(setting.members) * setting.samples
            done = partial(bar.advance, bar.add_task(name, total=total))
            attempts = attempt(suite, chosen, setting, target, judges, Journal(options.journal), done)
        found[name] = figures(setting, attempts, suite.note)
        notes.print(f"{name}: {total} replies in {time.monotonic() - started:.0f} s" + (f" ({suite.note})" if suite.note else ""), soft_wrap=True)
    return found


def _setting(suite: Suite, target: "Target", options: BenchmarkOptions) -> Setting:
    temperature = options.temperature if options.temperature is not None else 0.0 if options.samples == 1 else 0.8
    style = options.style or target.style
    return Setting(suite.name, suite.prompt_version, style, options.samples, temperature, options.max_tokens or suite.max_tokens, target.members)


def table(found: dict[str, dict[str, Any]], title: str) -> Table:
    result = Table(title=title, title_justify="left")
    compared = any("against_base" in row for row in found.values())
    best = max((int(k) for row in found.values() for k in row.get("pass_at", {})), default=0)
    columns = ["suite", "items", "% right (95 %)"] + ([f"% pass@{best}"] if best else []) + ["cut off"]
    for name in columns + (["base", "difference (95 %)", "p"] if compared else []):
        result.add_column(name, justify="left" if name == "suite" else "right")
    for name, row in found.items():
        cells = [name, str(row["n"]), _share(row)] + ([f"{100 * row['pass_at'][str(best)]:.1f}"] if best else []) + [str(row["truncated"])]
        result.add_row(*cells, *(_compared(row) if compared else []))
    return result


def _share(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{100 * row['accuracy']:.1f} ({100 * low:.0f}-{100 * high:.0f})"


def _compared(row: dict[str, Any]) -> list[str]:
    against = row["against_base"]
    low, high = against["interval"]
    return [_share(row["base"]), f"{100 * against['difference']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})", f"{against['p']:.3f}"]
