"""`redqueen cluster check`: whether a run would work on these devices or machines, before it
begins."""

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from redqueen.cli.bench.rows import best_ms, make_columns
from redqueen.cli.console import VisibleConsole, note, print_table
from redqueen.cli.lazy import new_app
from redqueen.cli.options import Device, Json
from redqueen.config.engine import EngineConfig
from redqueen.engine.blocks.devices import local_devices
from redqueen.engine.blocks.probe import Place, Question, compare, examine
from redqueen.engine.protocol import EngineSpec
from redqueen.errors import ConfigError

app = new_app(no_args_is_help=True)

Checked = tuple[Place, float]
"""A place, and milliseconds in which 4,096 completions of 256 tokens come from it."""


@app.callback()
def cluster() -> None:
    """Check many devices or machines before a run."""


@app.command()
def check(
    engine: Annotated[
        Literal["processes", "ray"],
        typer.Option(help="processes: the devices of this machine · ray: those of a cluster."),
    ] = "processes",
    address: Annotated[
        str, typer.Option(help="Of the Ray cluster, as engine.address: local, auto or host:port.")
    ] = "local",
    base: Annotated[str, typer.Option(help="The base that every worker is to load.")] = "pawn",
    device: Device = "auto",
    workers: Annotated[int, typer.Option(min=0, help="As engine.workers; 0: all.")] = 0,
    out: Annotated[Path, typer.Option(help="The folder that runs are to be in.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say what machines and devices there are, whether the base loads on each and is the same,
    whether the sandbox's walls stand and the run folder is seen from there, and how fast rows come
    back. Exit code 1 where something is wrong."""
    config = EngineConfig(type=engine, workers=workers, address=address)
    spec = EngineSpec(base, 1, config=config, device=device)
    with _shared_folder(out) as (folder, token):
        look = _look_here if engine == "processes" else _look_on_ray
        checked = look(spec, Question(base, "", folder, token))
        problems = compare([place for place, _ in checked], out)
    if as_json:
        places = [{**asdict(place), "rows_ms": round(ms, 1)} for place, ms in checked]
        print(json.dumps({"ready": not problems, "problems": problems, "places": places}, indent=1))
    else:
        _show(checked, problems)
    raise typer.Exit(1 if problems else 0)


@contextmanager
def _shared_folder(out: Path) -> Iterator[tuple[Path, str]]:
    """A folder where runs are to be, with a token in it, as long as the check takes."""
    there = next(path for path in (out.resolve(), *out.resolve().parents) if path.is_dir())
    token = secrets.token_hex(8)
    try:
        folder = Path(tempfile.mkdtemp(prefix=".cluster-check-", dir=there))
        (folder / "token").write_text(token)
        folder.chmod(0o777)  # workers may run under another name
    except OSError as error:
        raise ConfigError(f"--out={out}: {error}") from error
    try:
        yield folder, token
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _look_here(spec: EngineSpec, question: Question) -> list[Checked]:
    """A process for every device, all at once."""
    context, started = get_context("spawn"), []
    for device in local_devices(spec):
        ours, theirs = context.Pipe()
        own = Question(question.base, device.torch, question.folder, question.token)
        process = context.Process(
            target=_answer, args=(theirs, own, device.environment), daemon=True
        )
        process.start()
        theirs.close()
        started.append((device.name, process, ours))
    note(f"{len(started)} workers on this machine load {spec.base}")
    checked = []
    for name, process, pipe in started:
        try:
            place = pipe.recv()
            milliseconds = best_ms(partial(_ask_rows, pipe))
        except EOFError as error:
            process.join()
            raise ConfigError(
                f"the process on {name} ended with exit code {process.exitcode}: see above"
            ) from error
        checked.append((place, milliseconds))
        pipe.close()
        process.join()
    return checked


def _ask_rows(pipe: Any) -> Any:
    pipe.send("rows")
    return pipe.recv()


def _answer(pipe: Any, question: Question, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    pipe.send(examine(question))
    columns = make_columns()
    try:
        while pipe.recv():
            pipe.send(columns)
    except EOFError:
        return


class Probe:
    """An actor on one of the places that workers would have."""

    def examine(self, question: Question) -> Place:
        self.columns = make_columns()
        return examine(question)

    def rows(self) -> Any:
        return self.columns


def _look_on_ray(spec: EngineSpec, question: Question) -> list[Checked]:
    from redqueen.sandbox.ray_cluster import join_cluster

    join_cluster(spec.config.address, "--address")
    import ray
    from ray.exceptions import RayError

    from redqueen.engine.blocks.ray import PLACE_S, Room

    room = Room.find(spec)
    count = min(room.count(), spec.config.workers or room.count())
    if not count:
        raise ConfigError(f"the Ray cluster has no room for a worker ({room} each)")
    device = "cuda" if room.on_gpu else "cpu"
    own = Question(question.base, device, question.folder, question.token)
    actors = [ray.remote(Probe).options(**room.options).remote() for _ in range(count)]
    note(f"{count} workers on {len(ray.nodes())} machines load {spec.base}")
    try:
        asked = [actor.examine.remote(own) for actor in actors]
        places = ray.get(asked, timeout=max(PLACE_S, spec.config.hang_timeout_s))
        times = [best_ms(partial(_fetch_rows, actor)) for actor in actors]
    except RayError as error:
        raise ConfigError(f"a worker on Ray could not be asked: {error}") from error
    finally:
        for actor in actors:
            ray.kill(actor)
    return list(zip(places, times, strict=True))


def _fetch_rows(actor: Any) -> Any:
    import ray

    return ray.get(actor.rows.remote())


def _show(checked: Sequence[Checked], problems: Sequence[str]) -> None:
    console = VisibleConsole(markup=True)
    table = Table(title="workers' places", title_justify="left")
    for column in ("machine", "device", "python", "torch", "base", "walls", "run folder"):
        table.add_column(column)
    table.add_column("4,096 rows", justify="right")
    for place, milliseconds in checked:
        up = sum(state.startswith("up") for state in place.walls.values())
        table.add_row(
            escape(place.host),
            escape(place.hardware) or "-",
            place.python,
            place.versions["torch"],
            f"{place.load_s:.1f} s" if place.fingerprint else "[red]does not load[/]",
            f"{up} of {len(place.walls)} up" if place.walls else "[red]down[/]",
            "seen" if place.sees_folder else "[red]not seen[/]",
            f"{milliseconds:.1f} ms",
        )
    print_table(table, console)
    for problem in problems:
        console.print(f"[red]✗[/] {escape(problem)}", soft_wrap=True)
    if len({place.hardware for place, _ in checked if place.hardware}) > 1:
        console.print("[yellow]–[/] devices differ, and round differently: records follow them")
    console.print("[bold green]ready[/]" if not problems else "[bold red]not ready[/]")
