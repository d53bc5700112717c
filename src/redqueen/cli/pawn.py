"""`redqueen pawn`: train the bundled base, print programs it learns from, build the held-out
suites."""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from redqueen.cli.console import note, notes, progress
from redqueen.cli.lazy import new_app
from redqueen.cli.options import Device, Json
from redqueen.errors import ConfigError, DataError, StorageError, explain_disk
from redqueen.pawn.programs import Program, sample_program
from redqueen.rng import stream

app = new_app(no_args_is_help=True)


@app.callback()
def pawn() -> None:
    """Train the base model that ships with the package, and see what it learns from."""


@app.command()
def sample(
    tier: Annotated[int, typer.Option(min=1, max=10, help="Difficulty.")] = 3,
    seed: Annotated[int, typer.Option(help="The same seed prints the same programs.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    as_json: Json = False,
) -> None:
    """Print random programs with inputs and outputs, as Pawn is trained on."""
    rng = stream(seed, "pawn", "sample", tier)
    for number in range(count):
        program = sample_program(rng, tier)
        sys.stdout.write(_line(program) if as_json else _readable(program, number + 1))


def _line(program: Program) -> str:
    fields = {
        "tier": program.tier,
        "program": program.text,
        "inputs": program.inputs,
        "outputs": program.outputs,
    }
    return json.dumps({**fields, "traces": program.traces, "hint": program.hint}) + "\n"


def _readable(program: Program, number: int) -> str:
    calls = "".join(
        f"f({arguments}) -> {output}\n"
        for arguments, output in zip(program.inputs[:3], program.outputs[:3], strict=True)
    )
    trace = "".join(f"  {line}\n" for line in program.traces[0])
    return (
        f"# {number}, tier {program.tier}: {program.hint}\n{program.text}{calls}"
        + (f"steps of the first call:\n{trace}" if trace else "")
        + "\n"
    )


@app.command()
def suites(
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    each: Annotated[int, typer.Option(min=1, help="Problems of each kind and tier.")] = 100,
) -> None:
    """Build the held-out suites anew, as they were frozen."""
    from redqueen.pawn.heldout import build_suites
    from redqueen.sandbox.pool import SandboxPool

    with explain_disk(out):
        out.mkdir(parents=True, exist_ok=True)  # before the work
        with SandboxPool() as sandbox:
            build_suites(out, sandbox, each)
    note(f"suites written to {out}")


@app.command()
def attempts(
    out: Annotated[Path, typer.Option(help="File to write, JSONL.")],
    model: Annotated[
        str, typer.Option(metavar="{model}", help="Whose attempts: a folder, or pawn.")
    ] = "pawn",
    samples: Annotated[int, typer.Option(min=2, help="Attempts at each problem.")] = 6,
    limit: Annotated[int, typer.Option(min=0, help="Only so many problems; 0: all.")] = 0,
    device: Device = "auto",
) -> None:
    """Sample attempts for critics to judge, as those of heldout-critique were frozen."""
    from redqueen.evaluate.heldout_critique import PROBLEMS, freeze_attempts
    from redqueen.evaluate.replies import FORCED
    from redqueen.evaluate.runner import evaluate
    from redqueen.evaluate.targets import open_target
    from redqueen.sandbox.pool import SandboxPool

    target = open_target(model, device=device).without(FORCED)
    result = evaluate(target, PROBLEMS, samples=samples, temperature=1.0, limit=limit or None)
    with SandboxPool() as sandbox:
        lines = freeze_attempts(result.replies, sandbox)
    with explain_disk(out):
        out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    note(f"{len(lines)} attempts, half of them correct: {out}")


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Folder for the model, in the Hugging Face format.")],
    device: Device = "auto",
    tokens: Annotated[int, typer.Option(min=100_000, help="Tokens to train on.")] = 900_000_000,
    hidden: Annotated[
        int, typer.Option(min=32, help="Width of the model, a multiple of 32.")
    ] = 256,
    layers: Annotated[int, typer.Option(min=1, help="Depth of the model.")] = 6,
    reasoning_share: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of code_o's answers that come with reasoning."),
    ] = 0.4,
    reasoning_tier: Annotated[
        int,
        typer.Option(min=0, max=10, help="Highest tier whose answers come with reasoning."),
    ] = 10,
    solving_tier: Annotated[
        int,
        typer.Option(min=0, max=10, help="Highest tier that is solved, not only posed."),
    ] = 10,
    careful_share: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of the steps of a reasoning that are worked out."),
    ] = 0.0,
    critique_share: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="Share of documents that are critiques and repairs."),
    ] = 0.0,
    logic_share: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="Share of documents that are logic puzzles."),
    ] = 0.0,
    turn_reasoning_share: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of critiques and puzzles solved with reasoning."),
    ] = 0.4,
    learning_rate: Annotated[
        float,
        typer.Option(min=0, help="Peak learning rate; to continue training, a tenth is enough."),
    ] = 2.5e-3,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Continue training this model: a folder, pawn or pawn-games. Give another --seed.",
        ),
    ] = "",
    seed: Annotated[int, typer.Option(help="Of the documents and of the first weights.")] = 0,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes that make documents; 0: one for each core.")
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that is in the folder.")
    ] = False,
) -> None:
    """Pre-train Pawn: minutes on a GPU, a day on a CPU."""
    if (out / "config.json").exists() and not force:
        raise DataError(
            f"there is a model in {out} already: choose another folder, or replace it with --force"
        )
    from redqueen.models.base import pick_device
    from redqueen.pawn.heldout import excluded_keys
    from redqueen.pawn.pretrain import Pretraining, pretrain
    from redqueen.pawn.saving import save

    settings = Pretraining(
        seed=seed,
        start=_start_folder(start, seed) if start else "",
        hidden=hidden,
        layers=layers,
        tokens=tokens,
        reasoning_share=reasoning_share,
        reasoning_tier=reasoning_tier,
        solving_tier=solving_tier,
        careful_share=careful_share,
        critique_share=critique_share,
        logic_share=logic_share,
        turn_reasoning_share=turn_reasoning_share,
        learning_rate=learning_rate,
    )
    where = pick_device(device)
    with explain_disk(out):
        out.mkdir(parents=True, exist_ok=True)  # before the work
    with progress() as bar:
        task = bar.add_task("documents", total=tokens)
        last = 0

        def report(done: int, loss: float) -> None:
            nonlocal last
            bar.update(task, completed=done, description=f"loss {loss:.3f}")
            twentieths = done * 20 // tokens
            if not notes.is_terminal and twentieths > last:  # a line every 5 % in a plain log
                last = twentieths
                note(f"{100 * done // tokens} % of {tokens / 1e6:.0f}M tokens, loss {loss:.4f}")

        trained = pretrain(
            settings, excluded_keys(), str(where), workers or os.cpu_count() or 1, report
        )
    try:
        with explain_disk(out):
            save(trained, settings, out)
    except StorageError as error:
        out = Path(tempfile.mkdtemp(prefix="redqueen-pawn-"))
        note(f"{error} The model is kept in {out} instead.", "bold red")
        save(trained, settings, out)
    note(
        f"{trained.tokens / 1e6:.0f}M tokens of {trained.documents / 1e6:.2f}M documents "
        f"in {trained.seconds:.0f} s, loss {trained.loss:.4f}: {out}"
    )
    note(f"sha256 of its weights: {sha256((out / 'model.safetensors').read_bytes()).hexdigest()}")
    note(f"its scores: redqueen eval {out} --suite heldout")


@app.command()
def headroom(
    model: Annotated[
        str, typer.Argument(metavar="{model}", help="A folder, or pawn.", show_default=False)
    ] = "pawn",
    device: Device = "auto",
    steps: Annotated[int, typer.Option(min=1, help="Updates of every learner.")] = 100,
    seeds: Annotated[int, typer.Option(min=1, help="Learners of each learning rate.")] = 6,
    rate: Annotated[
        list[float] | None, typer.Option(help="Learning rate; may be repeated.")
    ] = None,
    problems: Annotated[
        int, typer.Option(min=1, help="Fresh problems for each learner in a step.")
    ] = 256,
    items: Annotated[int, typer.Option(min=1, help="Held-out problems.")] = 2000,
    every: Annotated[int, typer.Option(min=1, help="Steps between two measurements.")] = 25,
    as_json: Json = False,
) -> None:
    """Measure how far reinforcement on fresh problems moves accuracy given reasoning: minutes on
    a GPU."""
    from redqueen.evaluate.headroom import Headroom, Level, measure_headroom
    from redqueen.evaluate.statistics import mean, t_interval

    settings = Headroom(
        base=model,
        device=device,
        seeds=seeds,
        rates=tuple(rate or (1e-3,)),
        steps=steps,
        problems=problems,
        items=items,
        every=every,
    )

    def report(step: int, rates: Sequence[float], levels: Sequence[Level]) -> None:
        if rates:
            shares = " ".join(f"{100 * share:.1f}" for share in rates)
            note(f"step {step}/{steps}: % of attempts correct {shares}")
        if levels:
            scores = " ".join(f"{100 * level.accuracy:.1f}" for level in levels)
            note(f"  held-out, greedy, reasoning forced: {scores} %")

    result = measure_headroom(settings, report)
    if as_json:
        sys.stdout.write(json.dumps(result.to_json()) + "\n")
        return
    for tier, own in result.free.items():
        note(
            f"tier {tier}: reasons unasked {_percent(own['reasons'])}, correct if so "
            f"{_percent(own['correct'])}, if not {_percent(own['correct_without'])}; "
            f"reasoning forced {_percent(result.base.by_tier[tier])}"
        )
    for number, value in enumerate(settings.rates):
        gains = [100 * gain for gain in result.gains(number, steps)]
        interval = t_interval(gains)
        spread = f" ({interval[0]:+.1f} to {interval[1]:+.1f})" if interval else ""
        note(
            f"rate {value:g}: {100 * result.base.accuracy:.1f} % "
            f"{mean(gains):+.1f} points{spread} after {steps} steps"
        )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _start_folder(start: str, seed: int) -> str:
    """The folder of the model to continue from; its training must have had another seed."""
    from redqueen.models.bundled import BUNDLED

    folder = BUNDLED.get(start) or Path(start).expanduser()
    try:
        read = json.loads((folder / "pretraining.json").read_text())["settings"]["seed"]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"--from {start}: there is no Pawn in {folder} "
            "(a folder that `redqueen pawn train` wrote, pawn or pawn-games)"
        ) from error
    if read == seed:
        raise ConfigError(
            f"--from {start}: it was trained on the documents of seed {read} already; "
            f"give another one, such as --seed {read + 1}"
        )
    return str(folder)
