"""`redqueen eval`: a base, an adapter or members of a run on suites, as tables or as JSON."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from redqueen.cli import gold
from redqueen.cli.console import (
    SlowLines,
    VisibleConsole,
    note,
    print_table,
    progress,
    warn_if_unsafe,
)
from redqueen.cli.eval_tables import model_table, population_table, proposals_table, tier_table
from redqueen.cli.options import Device, Json, SandboxMode
from redqueen.errors import ConfigError
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.results_store import store_result
from redqueen.evaluate.run_members import find_run
from redqueen.evaluate.runner import EvalTask, load_task, open_graders
from redqueen.evaluate.runner import evaluate as evaluate_model
from redqueen.evaluate.suites import expand_names
from redqueen.evaluate.targets import Target, is_adapter, open_target
from redqueen.pawn.heldout import load_suite, shipped_score
from redqueen.report.page import write_text
from redqueen.sandbox import Sandbox

PROPOSALS = "proposals"
"""No suite: it measures how well a base proposes."""
_PROPOSALS_PER_KIND = 400


def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            help="A base (`pawn`, a folder, a .gguf file, owner/model on the hub), a PEFT adapter "
            "(its folder, or owner/name on the hub), the folder of a run (all members at once), a "
            "member of it (RUN/S2), what it hands over (RUN/soup, RUN/chosen, RUN/vote), `gold` or "
            "`forged`."
        ),
    ],
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="heldout, heldout-quick, heldout-deduction, heldout-large, heldout-critique, "
            "heldout-logic, proposals, a benchmark (humaneval+, gsm8k, ...), code, math, all, a "
            "JSONL file of problems or attempts, or one of your own (package.module:Suite); may be "
            "repeated."
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a run: only this member, or `students`, `teachers`, `soup`, `chosen` or "
            "`vote`; may be repeated."
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
        int,
        typer.Option(min=1, max=10_000, help="Replies to each item; more than one gives pass@k."),
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
    reasoning: Annotated[
        Literal["free", "forced"],
        typer.Option(
            help="forced: replies to Pawn's suites begin with reasoning, "
            "where the base has learned it."
        ),
    ] = "free",
    style: Annotated[
        Literal["chat", "base", "best"] | None,
        typer.Option(
            help="Prompts of benchmarks; by default chat where there is a template. best: what the "
            "base does better with on the first items, which are then left out of the score."
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The base of an adapter or a run, where its own config does not lead to it."
        ),
    ] = None,
    device: Device = "auto",
    devices: Annotated[
        int,
        typer.Option(min=0, help="Spread models over so many worker processes, one a device."),
    ] = 0,
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option(help="Of the weights; auto: bfloat16 on a GPU, else float32."),
    ] = "auto",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only this many items: of a benchmark the first, else spread over the suite.",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Limit for one reply; by default what the suite needs."),
    ] = None,
    sandbox: SandboxMode = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the JSON here, and every reply beside it: a second call goes on from these."
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

    `eval gold` grades the benchmarks' own answers: they must all be correct. `eval forged` grades
    cheats: none may be.
    """
    unsafe = sandbox == "unsafe"
    if target in ("gold", "forged"):
        fed: gold.Fed = "forged" if target == "forged" else "wrong" if wrong else "gold"
        passed = gold.run(fed, suite or ["all"], data, limit, unsafe, as_json, out)
        raise typer.Exit(0 if passed else 1)
    names = expand_names(suite or ["heldout"], [PROPOSALS])
    tasks = [load_task(name, data, limit) for name in names if name != PROPOSALS]
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}")
    if PROPOSALS in names and (find_run(target) is not None or is_adapter(target)):
        raise ConfigError(f"the suite '{PROPOSALS}' takes a base")
    model = open_target(
        target, member or (), world, base=base, device=device, dtype=dtype, devices=devices
    )
    _introduce(model)
    warn_if_unsafe(unsafe)
    rows: dict[str, Any] = {}
    results: list[EvalResult] = []
    cache = _cache_path(model, out)
    with open_graders(unsafe=unsafe) as graders, _explain_interrupt(cache):
        evaluate_task = partial(
            evaluate_model,
            model,
            samples=samples,
            temperature=temperature,
            max_tokens=max_tokens,
            style=style,
            prompt_format=prompt_format,
            reasoning=reasoning,
            cache=cache,
            graders=graders,
        )
        for task in tasks:
            results.append(_with_progress(task, evaluate_task))
        if PROPOSALS in names:
            rows[PROPOSALS] = _propose(model, prompt_format, graders.sandbox, limit, as_json)
    rows = {result.config.suite: result.to_json() for result in results} | rows
    for scored in results:
        _compare_with_shipped(scored)
    if not as_json:
        _show(results)
    unstored = _store(results)
    result = {"base": model.base.name, "target": model.name}
    where = {"run": str(model.run), "step": model.step} if model.run else {}
    _write(result | where | {"suites": rows}, out or _unstored_path(model, unstored), as_json)


def _introduce(target: Target) -> None:
    base = target.base
    note(f"{base.name}: {base.parameters / 1e6:.1f}M parameters, {base.dtype}, on {base.device}")
    if target.run:
        names = [model.name for model in target.models if not model.is_reference]
        more = ", ..." if len(names) > 16 else ""
        note(f"{', '.join(names[:16])}{more} after step {target.step}, and the base")


def _cache_path(target: Target, out: Path | None) -> Path | None:
    """Beside the JSON, or in the run's folder."""
    if out is not None:
        return out.with_suffix(".attempts.jsonl")
    if target.run is None:
        return None
    folder = target.run / "evals"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be made ({error.strerror}): name a place for the results with --out"
        ) from error
    return folder / "attempts.jsonl"


@contextmanager
def _explain_interrupt(cache: Path | None) -> Iterator[None]:
    """Within: who ends it is told how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if cache is not None:
            note(f"the same command goes on from the replies in {cache}")
        raise


def _with_progress(task: EvalTask, evaluate_task: "partial[EvalResult]") -> EvalResult:
    started = time.monotonic()
    lines = SlowLines(task.suite.name)
    with progress() as bar:
        bar_task = bar.add_task(task.suite.name, total=None)

        def show(done: int, total: int) -> None:
            bar.update(bar_task, completed=done, total=total)
            lines(done, total)

        result = evaluate_task(task, on_progress=show)
    seconds = time.monotonic() - started
    warning = f" ({result.note})" if result.note else ""
    note(f"{task.suite.name}: {len(result.replies)} replies in {seconds:.0f} s{warning}")
    if result.trial is not None:
        note(f"{task.suite.name}: {result.trial}")
    return result


def _store(results: list[EvalResult]) -> list[str]:
    """Write results of a run to its ledger; the suites for which that is not possible."""
    unstored = []
    for result in results:
        if result.run is not None and (reason := store_result(result)):
            unstored.append(result.config.suite)
            note(f"{result.config.suite} is not in the ledger of the run: {reason}")
    return unstored


def _unstored_path(target: Target, unstored: list[str]) -> Path | None:
    """A file in the run's folder for what could not go into its ledger."""
    if target.run is None or not unstored:
        return None
    path = target.run / "evals" / f"step-{target.step:06d}-{'-'.join(unstored)}.json"
    note(f"the scores are in {path}")
    return path


def _show(results: list[EvalResult]) -> None:
    console = VisibleConsole()
    plain: dict[str, dict[str, Any]] = {}
    for result in results:
        if len(result.under_test) > 1:
            row, worlds = result.to_json(), {model.world for model in result.under_test}
            members = [
                model.name
                for model in result.under_test
                if model.name in row["members"]
                and (len(worlds) == 1 or model.world not in result.populations)
            ]
            print_table(population_table(result.config.suite, row, members), console)
        elif "tiers" in result.to_json():
            print_table(tier_table(result), console)
        else:
            plain[result.config.suite] = result.to_json()
    if plain:
        sampling = "sampled" if results[0].config.temperature else "greedy"
        print_table(model_table(plain, f"{results[0].target}: {sampling}"), console)


def _compare_with_shipped(result: EvalResult) -> None:
    """Beside a base's own score, that of the base which ships with the suite."""
    name = result.config.suite
    is_whole = name == "heldout-quick" and result.n == len(load_suite(name))
    if is_whole and result.under_test[0].is_base and not result.config.temperature:
        note(
            f"{name}: {100 * result.score:.1f} % correct; "
            f"Pawn as shipped has {100 * shipped_score():.1f} %"
        )


def _write(result: dict[str, Any], out: Path | None, as_json: bool) -> None:
    if out is not None:
        write_text(out, json.dumps(result, indent=1) + "\n")
    if as_json:
        print(json.dumps(result))


def _propose(
    target: Target,
    prompt_format: str | None,
    sandbox: Sandbox,
    limit: int | None,
    as_json: bool,
) -> dict[str, Any]:
    """How well a base proposes, at temperature 1: valid, unique, and why not."""
    from redqueen.evaluate.proposals import propose_problems
    from redqueen.tasks.prompts import load_prompt_format

    started = time.monotonic()
    count = _PROPOSALS_PER_KIND if limit is None else max(1, limit // 3)
    with progress() as bar:
        stats = propose_problems(
            load_suite("heldout"),
            target.batches[0].sampler,
            load_prompt_format(prompt_format) if prompt_format else target.prompt_format,
            sandbox,
            count,
            partial(bar.advance, bar.add_task(PROPOSALS, total=3 * count)),
        )
    note(f"{PROPOSALS}: {3 * count} proposals in {time.monotonic() - started:.0f} s")
    if not as_json:
        print_table(proposals_table(stats))
    return {kind: row.to_json() for kind, row in stats.items()}
