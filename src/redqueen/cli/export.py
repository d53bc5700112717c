"""`redqueen export`: members, their average, or the curriculum of a run, for other tools."""

from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer

from redqueen.cli.console import VisibleConsole
from redqueen.cli.options import RunFolder
from redqueen.errors import ConfigError
from redqueen.ledger.packed import pack_ledger
from redqueen.ledger.run_reader import open_run
from redqueen.report.export.attempts import export_attempts
from redqueen.report.export.hub import HubKind, check_name, push_folder
from redqueen.report.export.judged import export_judged
from redqueen.report.export.members import export_member, export_soup
from redqueen.report.export.problems import export_problems
from redqueen.report.export.training import export_training


def export(
    folder: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to; it must be empty. With --push it may be left out. With "
            "--ledger a file."
        ),
    ] = None,
    member: Annotated[
        str | None, typer.Option(help="A living member, such as S2 or T1.30, as a PEFT folder.")
    ] = None,
    soup: Annotated[
        bool,
        typer.Option(
            "--soup", help="The average of all students, at their rank, as a PEFT folder."
        ),
    ] = False,
    merged: Annotated[
        bool,
        typer.Option(
            "--merged", help="With --member or --soup: full weights instead of an adapter."
        ),
    ] = False,
    problems: Annotated[
        bool,
        typer.Option(
            "--problems", help="The curriculum with gold answers and difficulty, as a data set."
        ),
    ] = False,
    attempts: Annotated[
        bool,
        typer.Option(
            "--attempts",
            help="What students wrote, graded. With --as: to train on. Without: a correct and a "
            "wrong one at each problem that has both, as a suite for critics (redqueen eval TARGET "
            "--suite OUT/attempts.jsonl).",
        ),
    ] = False,
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger",
            help="All records as one compressed file, --out NAME.sqlite.xz (or .gz), which report, "
            "compare, runs and open read as it is. No members.",
        ),
    ] = False,
    world: Annotated[int | None, typer.Option(min=0, help="Which world of a study.")] = None,
    form: Annotated[
        Literal["jsonl", "parquet"],
        typer.Option("--format", help="Of the problems; parquet needs the extra of that name."),
    ] = "jsonl",
    trainer: Annotated[
        Literal["verifiers", "trl", "datasets", "sft", "preference"] | None,
        typer.Option(
            "--as",
            help="Problems: an installable taskset for verifiers, rows and a reward function for "
            "TRL's GRPO, or a data set for Hugging Face. Attempts: correct ones as sft, correct "
            "and wrong ones as preference pairs.",
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also problems that every attempt solved, or none, which teach nothing.",
        ),
    ] = False,
    license_id: Annotated[
        str | None,
        typer.Option(
            "--license",
            help="Of what is exported, such as cc-by-4.0. By default, of data: apache-2.0 for what "
            "Pawn wrote, else unknown; of weights: the base's, where its card has one.",
        ),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME",
            help="Upload it, with its card, to the Hugging Face hub (or HF_ENDPOINT).",
        ),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="With --push: a repository that all can read.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            help="Where the base of an adapter is, for its config: owner/name on the hub, or a "
            "folder. With --merged, where to load the base from, if it moved."
        ),
    ] = None,
) -> None:
    """Export a member, the average of the students, the problems, the attempts or all records of a
    run, for other tools."""
    chosen = {
        "--member": member is not None,
        "--soup": soup,
        "--problems": problems,
        "--attempts": attempts,
        "--ledger": ledger,
    }
    names = [name for name, is_chosen in chosen.items() if is_chosen]
    if len(names) != 1:
        raise ConfigError(
            "say what to export: one of --member ID, --soup, --problems, --attempts and --ledger; "
            f"got {' and '.join(names) or 'none'}"
        )
    _check_trainer(trainer, problems, attempts)
    if ledger:
        _export_ledger(folder, out, push)
        return
    if push is not None:
        check_name(push)
    elif out is None:
        raise ConfigError("say where to write to with --out, or where to upload it with --push")
    weights: dict[str, Any] = {
        "merged": merged,
        "world": world,
        "base": base,
        "license_id": license_id,
        "portable": push is not None,
    }
    data: dict[str, Any] = {"license_id": license_id, "everything": everything}
    with TemporaryDirectory() if out is None else nullcontext(out) as place:
        to = Path(place) / "export" if out is None else out
        if trainer == "sft" or trainer == "preference":
            path = export_attempts(folder, to, trainer, world, **data)
        elif trainer is not None:
            path = export_training(folder, to, trainer, world, **data)
        elif attempts:
            path = export_judged(folder, to, world)
        elif problems:
            path = export_problems(folder, to, form, world, **data)
        elif member is not None:
            path = export_member(folder, member, to, **weights)
        else:
            path = export_soup(folder, to, **weights)
        if out is not None:
            _say(f"exported: {path}")
        if push is not None:
            kind: HubKind = "dataset" if problems or attempts else "model"
            _say(f"pushed: {push_folder(to, push, kind, private=not public)}")


def _export_ledger(folder: Path, out: Path | None, push: str | None) -> None:
    if out is None or push is not None:
        raise ConfigError("--ledger writes a file: name it with --out NAME.sqlite.xz, no --push")
    with open_run(folder) as run:
        path = pack_ledger(run.connection, out)
    _say(f"exported: {path} ({path.stat().st_size / 1e6:.1f} MB)")


def _check_trainer(trainer: str | None, problems: bool, attempts: bool) -> None:
    is_for_attempts = trainer in ("sft", "preference")
    if attempts and trainer is not None and not is_for_attempts:
        raise ConfigError("--attempts go with --as sft or --as preference, or without --as")
    if is_for_attempts and not attempts:
        raise ConfigError(f"--as {trainer} exports attempts: give --attempts")
    if trainer is not None and not attempts and not problems:
        raise ConfigError("--as says how to export problems: give --problems as well")


def _say(text: str) -> None:
    VisibleConsole().print(text, soft_wrap=True)
