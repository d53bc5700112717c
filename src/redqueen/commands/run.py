"""`redqueen run` and `redqueen resume`: the arms race, with its progress and its final table."""

import json
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from redqueen import __version__
from redqueen.commands.progress import StepProgress
from redqueen.config import Config, config_from_toml, to_toml
from redqueen.errors import ConfigError
from redqueen.fixed import load_source, seed_drafts
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.lock import RunLock
from redqueen.ledger.store import Ledger
from redqueen.loop import Tools
from redqueen.records import Problem
from redqueen.run import Degenerate, Run, run_folder
from redqueen.sandbox import Sandbox
from redqueen.sandbox.pool import SandboxPool
from redqueen.scribe import ModelScribe
from redqueen.tasks import TaskKind
from redqueen.terminal import notes, warn_if_unsafe
from redqueen.verify import judge_drafts
from redqueen.world import new_world

if TYPE_CHECKING:
    from redqueen.evaluate.members import Verdicts
    from redqueen.model.base import Base


def start(config: Config, name: str, out: Path | None, root: Path) -> None:
    """A new run, to its end."""
    folder = out or run_folder(root, name)
    with ExitStack() as stack:
        stack.enter_context(RunLock(folder))
        run = _assemble(stack, config, folder, new=True)
        run.begin()
        _go(run, folder)


def resume(folder: Path, steps: int | None) -> None:
    """Go on with a run, from its newest checkpoint; with `steps`, further than it was to go."""
    if not (folder / "run.sqlite").exists():
        raise ConfigError(f"there is no run in {folder}: `redqueen runs` lists those there are")
    with ExitStack() as stack:
        stack.enter_context(RunLock(folder))
        with Ledger.open(folder) as ledger:
            config = config_from_toml(ledger.about["config"])
            if steps is not None and steps != config.steps:
                config = config.model_copy(update={"steps": steps})
                ledger.add("run", [{"name": "config", "value": to_toml(config)}, {"name": "steps", "value": str(steps)}])
        run = _assemble(stack, config, folder, new=False)
        run.restore()
        notes.print(f"going on after step {run.step} of {config.steps}")
        _go(run, folder)


def _assemble(stack: ExitStack, config: Config, folder: Path, new: bool) -> Run:
    """All that a run needs. What can be wrong is looked at before what takes long."""
    kinds = config.tasks.load_kinds()
    source = load_source(config.fixed, config.tasks.kinds) if config.is_fixed else None
    warn_if_unsafe(config.sandbox.unsafe)
    from redqueen.engine.torch_engine import TorchEngine
    from redqueen.model.base import load_base

    base = load_base(config.base, device=config.device, dtype=config.dtype)
    engine = TorchEngine(base, config.slots, config.engine, config.seed)
    notes.print(
        f"{base.name}, {base.parameters / 1e6:.1f}M parameters, {str(base.dtype).removeprefix('torch.')} on {base.device}; "
        f"{config.slots} members of {engine.parameters_each / 1e3:,.0f}k parameters each"
    )
    sandbox = stack.enter_context(SandboxPool(config.sandbox))
    world = new_world(0, "run", config, 0, _seeds(config, kinds, sandbox))
    if new:
        ledger = Ledger.create(
            folder, _about(config, base), [{"world": 0, "arm": world.arm, "seed": config.seed, "config": config.model_dump_json()}]
        )
    else:
        ledger = Ledger.open(folder)
    stack.enter_context(ledger)
    tools = Tools(ModelScribe(engine, base), engine, sandbox, kinds, config.tasks.load_pack(base.pack), source)
    stack.callback(tools.thread.shutdown, wait=True, cancel_futures=True)
    return Run(config, [world], tools, ledger, Checkpoints(folder, config.ledger.keep, notes.print))


def _seeds(config: Config, kinds: dict[str, TaskKind], sandbox: Sandbox) -> list[Problem]:
    """The problems an archive begins with, verified like any other."""
    from redqueen.tasks import KINDS

    archive = config.archive
    drafts = seed_drafts(archive.seeds, archive.seed_count, archive.seed_tiers, config.seed)
    verdicts = judge_drafts([(kind, draft, None) for kind, draft in drafts], {**KINDS, **kinds}, sandbox, config.verify)
    problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
    if not problems:
        raise ConfigError(f"none of the {len(drafts)} problems of archive.seeds={archive.seeds} is valid: the first is rejected for {verdicts[0]}")
    return problems


def _about(config: Config, base: "Base") -> dict[str, str]:
    import torch
    import transformers

    machine = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(base.device) if base.device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads",
    }
    return {
        "config": to_toml(config),
        "steps": str(config.steps),
        "base": base.name,
        "version": __version__,
        "machine": json.dumps(machine),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _go(run: Run, folder: Path) -> None:
    ended = ""
    started = time.monotonic()
    with _signals() as asked_to_stop, StepProgress(run) as progress:
        try:
            run.play(lambda turns, seconds: _told(run, progress, turns, seconds), asked_to_stop)
        except Degenerate as degenerate:
            ended = str(degenerate)
        except FloatingPointError as error:
            ended = f"stopped in step {run.step + 1}: {error}. Lower update.learning_rate; the run is intact up to step {run.step}."
    if not ended and run.step < run.config.steps:
        notes.print(f"stopped after step {run.step} of {run.config.steps}. Go on with: redqueen resume {folder}")
        return
    if ended:
        notes.print(f"[bold red]{ended}[/]")
    run.ledger.add("run", [{"name": "ended", "value": ended or "all steps played"}])
    steps_s = time.monotonic() - started
    verdicts = _evaluate(run, run.step, with_base=True) if run.config.evaluate.suite else {}
    _final(run, folder, verdicts, steps_s)
    if ended:
        raise SystemExit(3)


def _told(run: Run, progress: StepProgress, turns: list[Any], seconds: float) -> None:
    progress.step(turns, seconds)
    every = run.config.evaluate.every
    if every and run.config.evaluate.suite and run.step % every == 0 and run.step < run.config.steps:
        verdicts = _evaluate(run, run.step, with_base=False)
        notes.print("  held-out: " + ", ".join(f"{name} {100 * sum(right) / len(right):.1f} %" for name, right in verdicts.items()))


def _evaluate(run: Run, step: int, with_base: bool) -> "Verdicts":
    """A side exit: it goes into the ledger and onto the screen, and no reward can read it."""
    from redqueen.engine.torch_engine import TorchEngine
    from redqueen.evaluate.members import answer, eval_rows
    from redqueen.pawn.heldout import load_suite

    suite = run.config.evaluate.suite
    items = load_suite(suite)
    scribe = run.tools.scribe
    assert isinstance(scribe, ModelScribe) and isinstance(run.engine, TorchEngine)
    found: Verdicts = {}
    for world in run.worlds:
        slots = {member.id: world.slot(member) for member in world.members if member.role != "teacher"}
        if with_base:
            notes.print(f"measuring the base and {len(slots)} students on {suite}, {len(items)} problems each")
            bare = TorchEngine(scribe.base, 0, run.config.engine)
            found |= answer(bare, scribe.base, run.tools.pack, {"base": 0}, items, run.tools.sandbox)
        found |= answer(run.engine, scribe.base, run.tools.pack, slots, items, run.tools.sandbox)
        run.ledger.add("evals", eval_rows(world.number, step, suite, found, items))
    return found


def _final(run: Run, folder: Path, verdicts: "Verdicts", steps_s: float) -> None:
    console = Console(highlight=False)
    base = verdicts.pop("base", None)
    table = Table(title="members", title_justify="left")
    for column in ("member", "rating", "± ", "lower bound", "held-out"):
        table.add_column(column, justify="left" if column == "member" else "right")
    for member in sorted(run.worlds[0].members, key=lambda member: (member.role, -member.rating.bound)):
        right = verdicts.get(member.id)
        score = "" if right is None else f"{100 * sum(right) / len(right):.1f} %"
        rating = member.rating
        table.add_row(f"{member.id} {member.role}", f"{rating.mu:.1f}", f"{rating.sigma:.1f}", f"{rating.bound:.1f}", score)
    console.print(table)
    if base and verdicts:
        _differences(console, verdicts, base, run.config.evaluate.suite)
    console.print(f"{run.step} steps in {steps_s:.0f} s. Everything is in {folder}: run.sqlite (the ledger), checkpoints/")
    console.print(f"two runs with the same settings can be compared with: redqueen digest {folder}")


def _differences(console: Console, verdicts: "Verdicts", base: list[bool], suite: str) -> None:
    from redqueen.evaluate.members import difference, mean_over

    scores = {member: sum(right) for member, right in verdicts.items()}
    best, weakest = max(scores, key=lambda name: scores[name]), min(scores, key=lambda name: scores[name])
    console.print(
        f"on {suite} ({len(base)} problems, greedy) the base has {100 * sum(base) / len(base):.1f} % right; beside it, with 95 % intervals:"
    )
    console.print(f"  students on average  {difference(mean_over(list(verdicts.values())), base)}")
    console.print(f"  weakest ({weakest})  {difference(verdicts[weakest], base)}")
    console.print(f"  best ({best})  {difference(verdicts[best], base)}  [dim](chosen on this very suite: no result by itself)[/]")


@contextmanager
def _signals() -> Iterator[Any]:
    """The first Ctrl-C or SIGTERM asks for an end after the step; the second ends at once. What is committed stays either way."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        notes.print("ending after this step; once more to end at once (nothing that is in the ledger is lost)")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
