"""`redqueen pawn`: train the bundled base, look at the programs it learns from, build the held-out
suites."""

import json
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.cli.console import note, notes, progress
from redqueen.errors import ConfigError, DataError
from redqueen.pawn.programs import Program, draw_program
from redqueen.rng import stream

if TYPE_CHECKING:
    from redqueen.pawn.pretrain import Pretraining


def sample(tier: int, seed: int, count: int, as_json: bool) -> None:
    """Programs with inputs, outputs and a trace. The same seed prints the same bytes."""
    draw = stream(seed, "pawn", "sample", tier)
    for number in range(count):
        program = draw_program(draw, tier)
        sys.stdout.write(_line(program) if as_json else _readable(program, number + 1))


def _line(program: Program) -> str:
    shown = {
        "tier": program.tier,
        "program": program.text,
        "inputs": program.inputs,
        "outputs": program.outputs,
    }
    return json.dumps({**shown, "traces": program.traces, "hint": program.hint}) + "\n"


def _readable(program: Program, number: int) -> str:
    calls = "".join(
        f"f({given}) -> {output}\n"
        for given, output in zip(program.inputs[:3], program.outputs[:3], strict=True)
    )
    trace = "".join(f"  {line}\n" for line in program.traces[0])
    return (
        f"# {number}, tier {program.tier}: {program.hint}\n{program.text}{calls}"
        + (f"steps of the first call:\n{trace}" if trace else "")
        + "\n"
    )


def build(out: Path, each: int) -> None:
    from redqueen.pawn.heldout import build_suites
    from redqueen.sandbox.pool import SandboxPool

    with SandboxPool() as sandbox:
        build_suites(out, sandbox, each)
    notes.print(f"suites written to {out}")


def train(out: Path, device: str, settings: "Pretraining", workers: int, force: bool) -> None:
    if (out / "config.json").exists() and not force:
        raise DataError(
            f"there is a model in {out} already: choose another folder, or replace it with --force"
        )
    from redqueen.models.base import pick_device
    from redqueen.pawn.heldout import excluded_keys
    from redqueen.pawn.pretrain import pretrain, save

    if settings.start:
        settings = _on_from(settings)
    where, tokens = pick_device(device), settings.tokens
    with progress() as bar:
        task = bar.add_task("documents", total=tokens)
        last = 0

        def report(done: int, loss: float) -> None:
            nonlocal last
            bar.update(task, completed=done, description=f"loss {loss:.3f}")
            if (
                not notes.is_terminal and done * 20 // tokens > last
            ):  # a plain log: a line for every 5 %
                last = done * 20 // tokens
                notes.print(
                    f"{100 * done // tokens} % of {tokens / 1e6:.0f}M tokens, loss {loss:.4f}"
                )

        trained = pretrain(settings, excluded_keys(), str(where), workers, report)
    save(trained, settings, out)
    notes.print(
        f"{trained.tokens / 1e6:.0f}M tokens of {trained.documents / 1e6:.2f}M documents in {trained.seconds:.0f} s, loss {trained.loss:.4f}: {out}"
    )
    note(f"sha256 of its weights: {sha256((out / 'model.safetensors').read_bytes()).hexdigest()}")
    notes.print(f"its scores: redqueen eval {out} --suite heldout")


def _on_from(settings: "Pretraining") -> "Pretraining":
    """Read on from a model that is there, with documents that it has not read."""
    from redqueen.models.base import PAWN

    folder = PAWN if settings.start == "pawn" else Path(settings.start).expanduser()
    try:
        read = json.loads((folder / "pretraining.json").read_text())["settings"]["seed"]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"--from {settings.start}: there is no Pawn in {folder} (a folder that `redqueen pawn train` wrote, or pawn)"
        ) from error
    if read == settings.seed:
        raise ConfigError(
            f"--from {settings.start}: it has read the documents of seed {read} already; give another one, such as --seed {read + 1}"
        )
    return replace(settings, start=str(folder))
