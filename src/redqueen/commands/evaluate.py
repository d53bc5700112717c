"""`redqueen eval`: a base on frozen suites, as a table or as JSON."""

import json
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.heldout import attempt_items, by_kind_and_tier
from redqueen.evaluate.intervals import Accuracy
from redqueen.evaluate.proposals import Proposed, propose_problems
from redqueen.evaluate.subject import Subject
from redqueen.model.base import Dtype, load_base
from redqueen.pawn.heldout import load_suite
from redqueen.sandbox.config import SandboxConfig
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.prompts import load_pack
from redqueen.terminal import notes, progress, warn_if_unsafe

SUITES = ("heldout", "heldout-quick", "proposals")
_PROPOSALS_EACH = 400


def run(source: str, suites: list[str], pack: str | None, device: str, dtype: Dtype, unsafe: bool, as_json: bool) -> None:
    for suite in suites:
        if suite not in SUITES:
            raise ConfigError(unknown("suite", suite, SUITES))
    base = load_base(source, device=device, dtype=dtype)
    notes.print(f"{base.name}: {base.parameters / 1e6:.1f}M parameters, {base.dtype}, on {base.device}".replace("torch.", ""))
    warn_if_unsafe(unsafe)
    results: dict[str, Any] = {}
    with SandboxPool(SandboxConfig(unsafe=unsafe)) as sandbox:
        for suite in suites:
            started = time.monotonic()
            items = load_suite("heldout" if suite == "proposals" else suite)
            total = 3 * _PROPOSALS_EACH if suite == "proposals" else len(items)
            with progress() as bar:
                task = bar.add_task(suite, total=total)
                subject = Subject(base, load_pack(pack or base.pack), lambda count, bar=bar, task=task: bar.advance(task, count))  # type: ignore[misc]
                if suite == "proposals":
                    proposed = propose_problems(items, subject, sandbox, _PROPOSALS_EACH, seed=0)
                    results[suite] = {kind: _proposed(found) for kind, found in proposed.items()}
                else:
                    table = by_kind_and_tier(items, attempt_items(items, subject, sandbox))
                    results[suite] = {kind: {str(tier): cell.as_json() for tier, cell in row.items()} for kind, row in table.items()}
            notes.print(f"{suite}: {total} in {time.monotonic() - started:.0f} s")
            if not as_json:
                Console().print(_proposals_table(proposed) if suite == "proposals" else _table(suite, table))
    if as_json:
        print(json.dumps({"base": base.name, "suites": results}))  # noqa: T201


def _table(suite: str, rows: dict[str, dict[int, Accuracy]]) -> Table:
    tiers = sorted({tier for row in rows.values() for tier in row})
    table = Table(title=f"{suite}: % right, greedy (95 % interval)", title_justify="left")
    for name in ("tier", *rows, "all"):
        table.add_column(name, justify="right")
    for tier in tiers:
        cells = [row[tier] for row in rows.values() if tier in row]
        table.add_row(str(tier), *(_cell(row.get(tier)) for row in rows.values()), _cell(_sum(cells)))
    table.add_section()
    everything = [cell for row in rows.values() for cell in row.values()]
    table.add_row("all", *(_cell(_sum(list(row.values()))) for row in rows.values()), _cell(_sum(everything)))
    return table


def _sum(cells: list[Accuracy]) -> Accuracy:
    return Accuracy(sum(cell.right for cell in cells), sum(cell.n for cell in cells))


def _cell(accuracy: Accuracy | None) -> str:
    if accuracy is None or not accuracy.n:
        return "-"
    low, high = accuracy.interval()
    return f"{100 * accuracy.value:.1f} ({100 * low:.0f}-{100 * high:.0f})"


def _proposals_table(found: dict[str, Proposed]) -> Table:
    table = Table(title="proposals at temperature 1: % (95 % interval)", title_justify="left")
    for name in ("kind", "valid", "unique among valid", "rejected"):
        table.add_column(name)
    for kind, proposed in found.items():
        rejected = ", ".join(f"{count} {reason}" for reason, count in proposed.rejected.items()) or "none"
        table.add_row(kind, _cell(proposed.valid), _cell(proposed.unique), rejected)
    return table


def _proposed(found: Proposed) -> dict[str, Any]:
    return {"valid": found.valid.as_json(), "unique": found.unique.as_json(), "rejected": found.rejected}
