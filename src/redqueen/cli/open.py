"""`redqueen open`: what a packed ledger holds, and the way to the rest."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from redqueen.cli.console import VisibleConsole
from redqueen.cli.options import Json
from redqueen.errors import ConfigError
from redqueen.ledger.packed import SUFFIXES, is_packed, unpack_ledger
from redqueen.ledger.run_reader import RunReader, open_run
from redqueen.ledger.store import FILE, refuse_what_is_there

_FACTS = ("base", "version", "created", "ended")


def open_packed(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.sqlite.xz or NAME.sqlite.gz.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Unpack it into this folder, for tools that read SQLite themselves."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a packed ledger holds: the records of a run as one compressed file, which `redqueen
    export RUN --ledger` makes. report, compare, runs, plot and digest read it as it is."""
    if not file.exists():
        raise ConfigError(f"there is no file {file}")
    if not is_packed(file):
        hint = " A run's folder needs no unpacking." if (file / FILE).exists() else ""
        names = " or ".join(f"NAME{suffix}" for suffix in SUFFIXES)
        raise ConfigError(f"{file} is not a packed ledger, a file {names}.{hint}")
    with open_run(file) as run:
        facts = _describe(run)
    if out is not None:
        refuse_what_is_there(out)
        unpack_ledger(file, out / FILE)
    if as_json:
        print(json.dumps(facts))
        return
    console = VisibleConsole(soft_wrap=True)
    for name, value in facts.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        console.print(f"{name:10} {text}")
    place = shlex.quote(str(out or file))
    page = "" if out is not None else " --out report.html"
    console.print(f"The whole page: redqueen report {place}{page}")


def _describe(run: RunReader) -> dict[str, str | int | list[str]]:
    about, worlds = run.about, run.worlds
    seeds = {world.arm: [w.seed for w in worlds if w.arm == world.arm] for world in worlds}
    arms = [f"{arm} (seeds {', '.join(map(str, own))})" for arm, own in seeds.items()]
    counts = {
        table: run.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("problems", "proposals", "attempts", "evals")
    }
    return {
        "steps": run.steps,
        "worlds": len(worlds),
        "arms": arms,
        **counts,
        **{name: about[name] for name in _FACTS if about.get(name)},
        "digest": run.digest(),
    }
