"""`redqueen eval`: a base, an adapter or members of a run on suites, as tables or as JSON.

What loads torch is imported once all names are known to be right.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from redqueen.benchmarks.maths.judge import MathsJudge
from redqueen.benchmarks.suite import Judges
from redqueen.benchmarks.suites import BENCHMARKS, expand
from redqueen.cli import gold
from redqueen.cli.benchmarks import (
    BenchmarkOptions,
    Finished,
    population_table,
    score,
    setting_of,
    share,
    table,
    tier_table,
)
from redqueen.cli.console import note, notes, progress, warn_if_unsafe
from redqueen.cli.options import Device, Json, SandboxMode
from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import ConfigError
from redqueen.evaluate.attempts import Attempted, Setting
from redqueen.evaluate.chosen import Chosen, choose_members
from redqueen.evaluate.figures import asked
from redqueen.evaluate.heldout import NAMES as HELD_OUT
from redqueen.evaluate.heldout import HeldOut
from redqueen.evaluate.members import Exam, benchmark_exam
from redqueen.evaluate.results_store import keep, kept_rows
from redqueen.jsonl import open_output
from redqueen.pawn.heldout import load_suite, shipped_score
from redqueen.sandbox import Sandbox
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.prompts import PromptFormat, load_prompt_format

if TYPE_CHECKING:
    from redqueen.evaluate.proposals import Proposed
    from redqueen.evaluate.targets import Target

PROPOSALS = "proposals"
SUITES = (*HELD_OUT, PROPOSALS)
"""Pawn's own; the others are benchmarks."""
_PROPOSALS_EACH = 400


def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            help="A base (`pawn`, a folder, a .gguf file, owner/model on the hub), a PEFT adapter "
            "folder, the folder of a run (all members at once), a member of it (RUN/S2), or `gold`."
        ),
    ],
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="heldout, heldout-quick, proposals, a benchmark (humaneval+, gsm8k, ...), "
            "or code, math, all; may be repeated."
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a run: only this member, or `students`, or `teachers`; may be repeated."
        ),
    ] = None,
    world: Annotated[
        int | None, typer.Option(min=0, help="Of a run with several worlds: only this one.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of benchmark files; by default REDQUEEN_DATA, else the hub."),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Replies to each item; more than one gives pass@k.")
    ] = 1,
    temperature: Annotated[
        float | None,
        typer.Option(min=0, help="By default 0 (greedy), or 0.8 with several samples."),
    ] = None,
    prompt_format: Annotated[
        str | None,
        typer.Option(
            help="Prompt format of Pawn's suites: chat or compact. "
            "By default what the base understands."
        ),
    ] = None,
    style: Annotated[
        Literal["chat", "base"] | None,
        typer.Option(help="Prompts of benchmarks; by default chat where there is a template."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The base of an adapter or a run, where its own config does not lead to it."
        ),
    ] = None,
    device: Device = "auto",
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option(help="Of the weights; auto: bfloat16 on a GPU, else float32."),
    ] = "auto",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Only so many items: of a benchmark the first, else spread over the suite."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Room for one answer; by default what the suite needs."),
    ] = None,
    sandbox: SandboxMode = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the JSON here, and every attempt beside it: "
            "a second call goes on from these."
        ),
    ] = None,
    wrong: Annotated[
        bool,
        typer.Option("--wrong", help="With `gold`: answers that are known to be wrong instead."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Score a base, an adapter, or the members of a run on suites, with confidence intervals. What
    is measured of a run goes into its ledger.

    `eval gold` grades the benchmarks' own answers: they must all be correct.
    """
    unsafe = sandbox == "unsafe"
    if target == "gold":
        graded = gold.run(suite or ["all"], data, limit, wrong, unsafe, as_json, out)
        raise typer.Exit(0 if graded else 1)
    journal = out.with_suffix(".attempts.jsonl") if out else None
    benchmarks = BenchmarkOptions(data, samples, temperature, limit, max_tokens, style, journal)
    options = EvalOptions(
        prompt_format,
        device,
        dtype,
        limit,
        max_tokens,
        unsafe,
        as_json,
        base,
        out,
        tuple(member or ()),
        world,
        benchmarks,
    )
    run(target, suite or ["heldout"], options)


@dataclass(frozen=True, slots=True)
class EvalOptions:
    prompt_format: str | None = None
    """None: what the base understands."""
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    limit: int | None = None
    """Items of a suite, of Pawn's suites spread over them, of a benchmark the first ones; None:
    all."""
    max_tokens: int | None = None
    """Room for one answer; None: what an answer of the suite takes."""
    unsafe: bool = False
    as_json: bool = False
    base: str | None = None
    """Of an adapter, where its own config does not lead to it."""
    out: Path | None = None
    """File for the JSON; the attempts go beside it, and a second call takes them up."""
    members: tuple[str, ...] = ()
    """Of a run: ids, `students` or `teachers`; none: all that live."""
    world: int | None = None
    """Of a run; None: all."""
    benchmarks: BenchmarkOptions = field(default_factory=BenchmarkOptions)


def run(source: str, suites: list[str], options: EvalOptions) -> None:
    names = expand(suites, SUITES)
    prompt_format = load_prompt_format(options.prompt_format) if options.prompt_format else None
    benchmarks = [
        benchmark_exam(name, options.benchmarks.data, options.limit)
        for name in names
        if name in BENCHMARKS
    ]
    if options.out is not None and not options.out.parent.is_dir():
        raise ConfigError(f"--out {options.out}: there is no folder {options.out.parent}")
    chosen = choose_members(source, options.members, options.world)
    from redqueen.evaluate.targets import is_adapter, load_members, load_target

    if (chosen is not None or is_adapter(source)) and PROPOSALS in names:
        raise ConfigError(f"the suite '{PROPOSALS}' takes a base")
    options = _with_journal(chosen, options)
    target = (
        load_members(chosen, options.base, options.device, options.dtype)
        if chosen
        else load_target(source, options.base, options.device, options.dtype)
    )
    base = target.base
    notes.print(
        f"{base.name}: {base.parameters / 1e6:.1f}M parameters, {base.dtype}, on {base.device}".replace(
            "torch.", ""
        )
    )
    if chosen:
        note(
            f"{', '.join(one.name for one in chosen.candidates[:16])}{', ...' * (len(chosen.candidates) > 16)} after step {chosen.step}, and the base"
        )
    prompt_format = prompt_format or (
        load_prompt_format(
            base.prompt_format
            if not chosen or chosen.config.tasks.prompt_format == "auto"
            else chosen.config.tasks.prompt_format
        )
    )
    warn_if_unsafe(options.unsafe)
    held_out = [
        HeldOut(name, prompt_format, options.max_tokens) for name in names if name in HELD_OUT
    ]
    exams = [*(Exam(one, one.items(options.limit)) for one in held_out), *benchmarks]
    not_kept: list[str] = []
    with SandboxPool(SandboxConfig(unsafe=options.unsafe)) as sandbox, MathsJudge() as maths:
        found = score(
            exams,
            target,
            Judges(sandbox, maths),
            options.benchmarks,
            _finished(target, not_kept, options.as_json),
        )
        if PROPOSALS in names:
            found[PROPOSALS] = _propose(target, prompt_format, sandbox, options)
    if not options.as_json:
        _show(
            {name: row for name, row in found.items() if not (target.is_base and name in SUITES)},
            target,
        )
    where: dict[str, Any] = {"run": str(chosen.folder), "step": chosen.step} if chosen else {}
    if held_out and target.is_base:  # figures by tier have no place for it
        where["asked"] = {
            one.name: asked(setting_of(one, target, options.benchmarks)) for one in held_out
        }
    result = {"base": base.name, "target": target.name, **where, "suites": found}
    _hand_over(result, _with_out(chosen, not_kept, options))


def _with_journal(chosen: Chosen | None, options: EvalOptions) -> EvalOptions:
    """The attempts at a run's members are kept in the run's folder, unless --out names another
    place."""
    if chosen is None or options.benchmarks.journal is not None:
        return options
    folder = chosen.folder / "evals"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be made ({error.strerror}): name a place for the results with --out"
        ) from error
    return replace(
        options, benchmarks=replace(options.benchmarks, journal=folder / "attempts.jsonl")
    )


def _finished(target: "Target", not_kept: list[str], as_json: bool) -> Finished:
    """What is measured of a run goes into its ledger, suite by suite; why not, where that cannot
    be, into `not_kept`. Of a base, tiers are shown."""

    def finished(exam: Exam, setting: Setting, attempts: list[Attempted]) -> None:
        chosen, name = target.chosen, exam.suite.name
        if chosen:
            if why := keep(chosen, kept_rows(chosen, setting, exam.items, attempts)):
                not_kept.append(name)
                note(f"{name} is not in the ledger of the run: {why}")
        elif target.is_base and exam.has_tiers:
            if (
                name == "heldout-quick"
                and len(exam.items) == len(load_suite(name))
                and not setting.temperature
            ):
                right = sum(one.right for one in attempts) / len(attempts)
                note(
                    f"{name}: {100 * right:.1f} % right where Pawn as shipped has {100 * shipped_score():.1f} %"
                )
            if not as_json:
                Console().print(tier_table(exam, setting, attempts))

    return finished


def _with_out(chosen: Chosen | None, not_kept: Sequence[str], options: EvalOptions) -> EvalOptions:
    """What could not go into the ledger is not lost: it is in a file beside it."""
    if chosen is None or not not_kept or options.out is not None:
        return options
    out = chosen.folder / "evals" / f"step-{chosen.step:06d}-{'-'.join(not_kept)}.json"
    note(f"the figures are in {out}")
    return replace(options, out=out)


def _show(found: dict[str, Any], target: "Target") -> None:
    if not found:
        return
    if not target.is_population:
        drawn = "greedy" if not next(iter(found.values()))["temperature"] else "sampled"
        Console().print(table(found, f"{target.name}: {drawn}"))
        return
    assert target.chosen is not None
    shown = [one.name for one in target.chosen.candidates] if len(target.chosen.worlds) == 1 else []
    for suite, row in found.items():
        Console().print(population_table(suite, row, shown))


def _hand_over(result: dict[str, Any], options: EvalOptions) -> None:
    if options.out is not None:
        with open_output(options.out) as file:
            file.write(json.dumps(result, indent=1) + "\n")
    if options.as_json:
        print(json.dumps(result))


def _propose(
    target: "Target", prompt_format: PromptFormat, sandbox: Sandbox, options: EvalOptions
) -> dict[str, Any]:
    """How well a base proposes, always at temperature 1: valid, unique, and why not."""
    from redqueen.engine.text_sampler import EngineTextSampler
    from redqueen.evaluate.proposals import propose_problems

    engine, started = target.engine, time.monotonic()
    each = _PROPOSALS_EACH if options.limit is None else max(1, options.limit // 3)
    with progress() as bar:
        done = partial(bar.advance, bar.add_task(PROPOSALS, total=3 * each))
        found = propose_problems(
            load_suite("heldout"),
            EngineTextSampler(engine, engine.tokenizer, engine.base.context),
            prompt_format,
            sandbox,
            each,
            done,
        )
    notes.print(
        f"{PROPOSALS}: {3 * each} proposals in {time.monotonic() - started:.0f} s", soft_wrap=True
    )
    if not options.as_json:
        Console().print(_proposals_table(found))
    return {
        kind: {
            "valid": one.valid.as_json(),
            "unique": one.unique.as_json(),
            "rejected": one.rejected,
        }
        for kind, one in found.items()
    }


def _proposals_table(found: "dict[str, Proposed]") -> Table:
    table = Table(title="proposals at temperature 1: % (95 % interval)", title_justify="left")
    for name in ("kind", "valid", "unique among valid", "rejected"):
        table.add_column(name)
    for kind, proposed in found.items():
        rejected = (
            ", ".join(f"{count} {reason}" for reason, count in proposed.rejected.items()) or "none"
        )
        table.add_row(
            kind, share(proposed.valid.as_json()), share(proposed.unique.as_json()), rejected
        )
    return table
