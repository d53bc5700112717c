"""`redqueen export`: members, their average, or the curriculum of a run, for other tools."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from redqueen.cli.options import MovedBase, RunFolder
from redqueen.errors import ConfigError
from redqueen.report.export.attempts import export_attempts
from redqueen.report.export.members import export_member, export_soup
from redqueen.report.export.problems import export_problems
from redqueen.report.export.training import export_training


def export(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(help="Folder to write to; it must be empty.")],
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
            help="A correct and a wrong attempt at each problem that has both: a suite for critics "
            "(redqueen eval TARGET --suite OUT/attempts.jsonl).",
        ),
    ] = False,
    world: Annotated[int | None, typer.Option(min=0, help="Which world of a study.")] = None,
    form: Annotated[
        Literal["jsonl", "parquet"],
        typer.Option("--format", help="Of the problems; parquet needs the extra of that name."),
    ] = "jsonl",
    trainer: Annotated[
        Literal["verifiers", "trl", "datasets"] | None,
        typer.Option(
            "--as",
            help="The problems for a trainer: an installable taskset for verifiers, rows and a "
            "reward function for TRL's GRPO, or a data set for Hugging Face.",
        ),
    ] = None,
    base: MovedBase = None,
) -> None:
    """Export a member, the average of the students, or problems and attempts of a run, for other
    tools."""
    chosen = {
        "--member": member is not None,
        "--soup": soup,
        "--problems": problems,
        "--attempts": attempts,
    }
    names = [name for name, is_chosen in chosen.items() if is_chosen]
    if len(names) != 1:
        raise ConfigError(
            "say what to export: one of --member ID, --soup, --problems and --attempts; "
            f"got {' and '.join(names) or 'none'}"
        )
    if trainer is not None and not problems:
        raise ConfigError("--as says how to export problems: give --problems as well")
    if trainer is not None:
        path = export_training(folder, out, trainer, world)
    elif attempts:
        path = export_attempts(folder, out, world)
    elif problems:
        path = export_problems(folder, out, form, world)
    elif member is not None:
        path = export_member(folder, member, out, merged=merged, world=world, base=base)
    else:
        path = export_soup(folder, out, merged=merged, world=world, base=base)
    Console(highlight=False).print(f"exported: {path}", soft_wrap=True, markup=False)
