"""`redqueen export`: members, their average, or the curriculum of a run, for other tools to use."""

import contextlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from redqueen.cli.options import MovedBase, RunFolder
from redqueen.cli.report import check
from redqueen.errors import ConfigError, unknown
from redqueen.ledger.store import reader
from redqueen.report.export.model_cards import data_card, model_card
from redqueen.report.export.problems import Format, export_problems
from redqueen.report.run_view import Side, sides
from redqueen.report.scores import suites


def export(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(help="Folder to write to; it must not hold anything.")],
    member: Annotated[
        str | None, typer.Option(help="A living member, such as S2 or T1.30, as a PEFT folder.")
    ] = None,
    soup: Annotated[
        bool,
        typer.Option(
            "--soup", help="The average of all students, in their rank, as a PEFT folder."
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
            "--problems", help="The curriculum with verified answers and difficulty, as a data set."
        ),
    ] = False,
    world: Annotated[int | None, typer.Option(min=0, help="Which world of a study.")] = None,
    form: Annotated[
        Literal["jsonl", "parquet"],
        typer.Option("--format", help="Of the problems; parquet needs the extra of that name."),
    ] = "jsonl",
    base: MovedBase = None,
) -> None:
    """Take a member, the students' average, or the problems out of a run, for other tools to
    use.
    """
    run(folder, out, Wanted(member, soup, merged, problems, world, form, base))


@dataclass(frozen=True, slots=True)
class Wanted:
    member: str | None
    soup: bool
    merged: bool
    problems: bool
    world: int | None
    form: Format
    base: str | None = None
    """Where the run's base is now; None: where it was."""


def run(folder: Path, out: Path, wanted: Wanted) -> None:
    check([folder])
    chosen = [
        name
        for name, given in (
            ("--member", wanted.member),
            ("--soup", wanted.soup),
            ("--problems", wanted.problems),
        )
        if given
    ]
    if len(chosen) != 1:
        raise ConfigError(
            f"say what to export, one of --member ID, --soup and --problems; got {' and '.join(chosen) or 'none'}"
        )
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise ConfigError(f"{out} is not empty: name another folder with --out")
    with contextlib.closing(reader(folder)) as connection:
        connection.execute("BEGIN")
        found = sides(connection, folder)
        if wanted.problems:
            _problems(
                [found[wanted.world]] if wanted.world is not None else found, out, wanted.form
            )
        else:
            _members(_one_world(found, wanted.world), out, wanted)


def _one_world(found: list[Side], world: int | None) -> Side:
    if world is None and len(found) > 1:
        raise ConfigError(
            f"this run has {len(found)} worlds: choose one with --world, from 0 ({', '.join(side.name for side in found[:6])})"
        )
    if world is not None and world not in range(len(found)):
        raise ConfigError(f"there is no world {world}: this run has {len(found)}, from 0")
    return found[world or 0]


def _problems(found: list[Side], out: Path, form: Format) -> None:
    path, count = export_problems(found, out, form)
    kinds: Counter[str] = Counter()
    for side in found:
        kinds.update(
            {
                row["kind"]: row["n"]
                for row in side.rows(
                    "SELECT kind, count(*) AS n FROM problems WHERE world = :world GROUP BY kind"
                )
            }
        )
    (out / "README.md").write_text(
        data_card(_about(found[0]), path, count, dict(kinds)), encoding="utf-8"
    )
    Console(highlight=False).print(f"{count:,} problems: {path}", soft_wrap=True, markup=False)


def _members(side: Side, out: Path, wanted: Wanted) -> None:
    from redqueen.ledger.members import (
        choose,
        load_adapters,
        newest_checkpoint,
        saved_members,
        soup,
    )

    checkpoint = newest_checkpoint(side.folder)
    living = saved_members(checkpoint, side.world)
    chosen = (
        [one for one in living if one.role != "teacher"]
        if wanted.soup
        else [choose(living, wanted.member or "")]
    )
    if not chosen:
        raise ConfigError(unknown("role with members", "student", {one.role for one in living}))
    base, adapters = load_adapters(side.about, checkpoint, chosen, wanted.base)
    adapter = soup(adapters) if wanted.soup else adapters[0]
    name = "soup" if wanted.soup else chosen[0].member
    if wanted.merged:
        from redqueen.models.merge import merge_adapter, save_model

        merge_adapter(base, adapter)
        save_model(base, out)
    else:
        from redqueen.models.peft_io import save_adapter

        # by its name: where its files are on this machine is nobody else's matter
        name_of_base = side.about.get("base", "")
        save_adapter(adapter, out, base=name_of_base, fingerprint=base.fingerprint)
    about = {
        **_about(side),
        "rank": adapter.rank,
        "step": checkpoint.step,
        "scores": [] if wanted.soup else _scores(side, name, checkpoint.step),
    }
    (out / "README.md").write_text(
        model_card(_what(wanted, [one.member for one in chosen]), name, about, wanted.merged),
        encoding="utf-8",
    )
    Console(highlight=False).print(
        f"{name} after step {checkpoint.step}: {out}", soft_wrap=True, markup=False
    )


def _what(wanted: Wanted, members: list[str]) -> str:
    form = (
        "full weights, the adapter added to the base"
        if wanted.merged
        else "a LoRA adapter in the PEFT format"
    )
    if wanted.soup:
        return f"The average of the students {', '.join(members)}, cut back to their rank, as {form}. No member of the run: it was never trained itself."
    role = (
        "teacher: it invents problems"
        if members[0].startswith("T")
        else "student: it solves problems"
        if members[0].startswith("S")
        else "member"
    )
    return f"A {role}. As {form}."


def _about(side: Side) -> dict[str, Any]:
    about = side.about
    return {
        "name": side.name,
        "base": about.get("base", ""),
        "steps": about.get("steps", "?"),
        "step": side.last,
        "created": about.get("created", ""),
    }


def _scores(side: Side, member: str, step: int) -> list[tuple[str, str, str]]:
    """The member's scores of that very step; older ones would be of other weights."""
    found = []
    for suite in suites(side):
        for subject in suite["subjects"]:
            if subject["subject"] == member and suite["lines"]["steps"][-1:] == [step]:
                mean, low, high = (100 * value for value in subject["score"])
                gain = (
                    "–"
                    if subject["gain"] is None
                    else "{:+.1f} [{:+.1f}, {:+.1f}]".format(
                        *(100 * value for value in subject["gain"])
                    )
                )
                found.append((suite["suite"], f"{mean:.1f} % [{low:.1f}, {high:.1f}]", gain))
    return found
