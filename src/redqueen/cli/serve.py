"""`redqueen serve`: many people train and sample on one device, or chat with the members of a
run."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from redqueen.cli.console import note
from redqueen.cli.options import Device
from redqueen.errors import ConfigError

if TYPE_CHECKING:
    from redqueen.serve.app import ModelServer, ServeSettings


def serve(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Folder of a run, whose members are served."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="The base to train on: pawn, a folder, a .gguf file, owner/model."),
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Where models, journals and checkpoints of tenants are.")
    ] = Path("served"),
    slots: Annotated[
        int, typer.Option(min=1, help="Adapters in memory at a time; others are parked on disk.")
    ] = 16,
    rank: Annotated[int, typer.Option(min=1, help="Largest rank of an adapter.")] = 32,
    alpha: Annotated[
        float, typer.Option(min=0, help="Adapters' output is multiplied by alpha / rank.")
    ] = 32.0,
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", help="Projection to adapt, such as q_proj; all if none is named."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine needs keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8744,
    keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A line `NAME KEY` for each tenant.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=KEY", help="One tenant's key; may be repeated."),
    ] = None,
    losses: Annotated[
        list[str] | None,
        typer.Option("--loss", help="A loss of your own that tenants may name: an import path."),
    ] = None,
    models: Annotated[int, typer.Option(min=1, help="Models a tenant may have in use.")] = 16,
    tokens: Annotated[
        int, typer.Option(min=1, help="Tokens a tenant may have in flight.")
    ] = 2_000_000,
    disk_gb: Annotated[float, typer.Option(min=0.001, help="Disk a tenant may use.")] = 20.0,
    body_mb: Annotated[float, typer.Option(min=0.001, help="Largest request.")] = 64.0,
    gather_ms: Annotated[
        float,
        typer.Option(min=0, help="How long to wait for others who are about to send something."),
    ] = 100.0,
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Optimizer steps of a model between two checkpoints.")
    ] = 20,
    max_num_seqs: Annotated[
        int, typer.Option(min=1, help="Sequences decoded at a time; the others wait.")
    ] = 256,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="Of a CPU; 0: torch's choice.")] = 0,
    device: Device = "auto",
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"], typer.Option(help="Of the base.")
    ] = "auto",
) -> None:
    """Serve Tinker's training API and OpenAI's API for text from one device. With a run, its
    members can be sampled from by name: S2, soup, chosen, base.
    """
    if run is None and base is None:
        raise ConfigError("say what to serve: a run's folder, or a base with --base")
    check_installed("starlette", "uvicorn", "tinker")
    from redqueen.config.engine import EngineConfig, LoraConfig
    from redqueen.models.base import locate
    from redqueen.serve.app import ModelServer, ServeSettings, check_bind, listen
    from redqueen.serve.members import read_run
    from redqueen.serve.quotas import Quotas
    from redqueen.serve.tenants import read_keys

    known = read_keys(keys, key or ())
    check_bind(host, known)
    settings = ServeSettings(
        base or "",
        folder,
        slots,
        LoraConfig(rank=rank, alpha=alpha, targets=tuple(targets or ())),
        EngineConfig(max_num_seqs=max_num_seqs, threads=threads),
        device,
        dtype,
        known,
        Quotas(models=models, tokens_in_flight=tokens, disk_mb=disk_gb * 1e3, body_mb=body_mb),
        tuple(losses or ()),
        gather_ms / 1e3,
        checkpoint_every,
    )
    members = None
    if run is not None:
        served = read_run(run, settings, base)
        settings, members = served.settings, served.adapters
    settings = replace(settings, tokenizer=locate(settings.base).target)
    listener = listen(host, port)
    server = ModelServer(settings, members=members)
    try:
        _announce(settings, server, host, listener.getsockname()[1])
        _run(server, listener)
    finally:
        server.close()
    if server.worker.failure is not None:
        raise typer.Exit(1)


def check_installed(*names: str) -> None:
    import importlib.util

    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"serving needs {', '.join(missing)}: pip install 'redqueen[serve]'")


def _announce(settings: "ServeSettings", server: "ModelServer", host: str, port: int) -> None:
    name = f"[{host}]" if ":" in host else host
    base = server.engine.base
    note(f"serving {base.name} on {base.device}: http://{name}:{port}")
    who = ", ".join(settings.keys.tenants)
    note(
        f"{settings.slots} slots of rank {settings.lora.rank}; tenants: {who}; "
        f"state in {settings.folder}"
    )
    if server.service.members.keys() - {"base"}:
        note(f"members: {', '.join(server.service.members)}")
    key = "tml-..." if settings.keys.pairs else "tml-any"
    note(f"training: TINKER_BASE_URL=http://{name}:{port} TINKER_API_KEY={key}")
    note(f"text: OPENAI_BASE_URL=http://{name}:{port}/v1 OPENAI_API_KEY={key}")
    note("Ctrl-C stops the server; a restart goes on where it was.")


def _run(server: "ModelServer", listener: object) -> None:
    from redqueen.serve.app import http_server

    with suppress(KeyboardInterrupt):
        http_server(server).run(sockets=[listener])
