"""`redqueen eval`: a base or an adapter on suites, as a table or as JSON. What loads torch is imported once all names are known to be right."""

import json
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.table import Table

from redqueen.commands.benchmarks import BenchmarkOptions, load_items, score, table
from redqueen.errors import ConfigError
from redqueen.evaluate.intervals import Accuracy
from redqueen.evaluate.maths_judge import MathsJudge
from redqueen.evaluate.suite import Judges
from redqueen.evaluate.suites import BENCHMARKS, expand
from redqueen.jsonl import open_output
from redqueen.pawn.heldout import load_suite, shipped_score
from redqueen.sandbox import Sandbox
from redqueen.sandbox.config import SandboxConfig
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.prompts import PromptPack, load_pack
from redqueen.terminal import notes, progress, warn_if_unsafe

if TYPE_CHECKING:
    from redqueen.evaluate.proposals import Proposed
    from redqueen.model.base import Base

SUITES = ("heldout", "heldout-quick", "proposals")
"""Pawn's own; the others are benchmarks."""
_PROPOSALS_EACH = 400


@dataclass(frozen=True, slots=True)
class EvalOptions:
    pack: str | None = None
    """None: what the base understands."""
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    limit: int | None = None
    """Items of a suite, of Pawn's suites spread over them, of a benchmark the first ones; None: all."""
    max_tokens: int | None = None
    """Room for one answer; None: what an answer of the suite takes."""
    unsafe: bool = False
    as_json: bool = False
    base: str | None = None
    """Of an adapter, where its own config does not lead to it."""
    out: Path | None = None
    """File for the JSON; the attempts go beside it, and a second call takes them up."""
    benchmarks: BenchmarkOptions = field(default_factory=BenchmarkOptions)


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of one suite."""

    said: str
    figures: dict[str, Any]
    table: Table


def run(source: str, suites: list[str], options: EvalOptions) -> None:
    names = expand(suites, SUITES)
    pack = load_pack(options.pack) if options.pack else None
    items = load_items([name for name in names if name in BENCHMARKS], options.benchmarks.data, options.limit)
    if options.out is not None and not options.out.parent.is_dir():
        raise ConfigError(f"--out {options.out}: there is no folder {options.out.parent}")
    from redqueen.evaluate.target import is_adapter, load_target

    own = [name for name in names if name in SUITES]
    if own and is_adapter(source):
        raise ConfigError(f"the suite '{own[0]}' takes a base; an adapter can be evaluated on benchmarks ({', '.join(list(BENCHMARKS)[:4])}, ...)")
    target = load_target(source, options.base, options.device, options.dtype)
    base = target.base
    notes.print(f"{base.name}: {base.parameters / 1e6:.1f}M parameters, {base.dtype}, on {base.device}".replace("torch.", ""))
    warn_if_unsafe(options.unsafe)
    results: dict[str, Any] = {}
    with SandboxPool(SandboxConfig(unsafe=options.unsafe)) as sandbox, MathsJudge() as maths:
        for suite in own:
            started = time.monotonic()
            done = (_propose if suite == "proposals" else _solve)(suite, base, pack or load_pack(base.pack), sandbox, options)
            notes.print(f"{suite}: {done.said} in {time.monotonic() - started:.0f} s", soft_wrap=True)
            results[suite] = done.figures
            if not options.as_json:
                Console().print(done.table)
        found = score(items, target, Judges(sandbox, maths), options.benchmarks)
    if found and not options.as_json:
        Console().print(table(found, f"{target.members[0]}: {'greedy' if options.benchmarks.samples == 1 else 'sampled'}"))
    _hand_over({"base": base.name, "target": target.members[0], "suites": results | found}, options)


def _hand_over(result: dict[str, Any], options: EvalOptions) -> None:
    if options.out is not None:
        with open_output(options.out) as file:
            file.write(json.dumps(result, indent=1) + "\n")
    if options.as_json:
        print(json.dumps(result))  # noqa: T201


def _solve(suite: str, base: "Base", pack: PromptPack, sandbox: Sandbox, options: EvalOptions) -> _Done:
    from redqueen.evaluate.heldout import attempt_items, by_kind_and_tier, spread
    from redqueen.evaluate.subject import Subject

    items = spread(load_suite(suite), options.limit)
    with progress() as bar:
        subject = Subject(base, pack, partial(bar.advance, bar.add_task(suite, total=len(items))))
        attempts = attempt_items(items, subject, sandbox, options.max_tokens)
    rows = by_kind_and_tier(items, attempts)
    said = f"{len(items)} answers ({sum(attempt.verdict == 'malformed' for attempt in attempts)} malformed)"
    if suite == "heldout-quick" and len(items) == len(load_suite(suite)):
        ours, shipped = _sum([cell for row in rows.values() for cell in row.values()]), shipped_score()
        said += f", {100 * ours.value:.1f} % right where Pawn as shipped has {100 * shipped:.1f} %,"
    figures = {kind: {str(tier): cell.as_json() for tier, cell in row.items()} for kind, row in rows.items()}
    return _Done(said, figures, _table(suite, rows))


def _propose(suite: str, base: "Base", pack: PromptPack, sandbox: Sandbox, options: EvalOptions) -> _Done:
    from redqueen.evaluate.proposals import propose_problems
    from redqueen.evaluate.subject import Subject

    each = _PROPOSALS_EACH if options.limit is None else max(1, options.limit // 3)
    with progress() as bar:
        subject = Subject(base, pack, partial(bar.advance, bar.add_task(suite, total=3 * each)))
        found = propose_problems(load_suite("heldout"), subject, sandbox, each, seed=0)
    figures = {kind: {"valid": one.valid.as_json(), "unique": one.unique.as_json(), "rejected": one.rejected} for kind, one in found.items()}
    return _Done(f"{3 * each} proposals", figures, _proposals_table(found))


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


def _proposals_table(found: "dict[str, Proposed]") -> Table:
    table = Table(title="proposals at temperature 1: % (95 % interval)", title_justify="left")
    for name in ("kind", "valid", "unique among valid", "rejected"):
        table.add_column(name)
    for kind, proposed in found.items():
        rejected = ", ".join(f"{count} {reason}" for reason, count in proposed.rejected.items()) or "none"
        table.add_row(kind, _cell(proposed.valid), _cell(proposed.unique), rejected)
    return table
