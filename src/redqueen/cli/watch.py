"""`redqueen watch`: the report of runs that go on, in a browser."""

from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from redqueen.cli.options import RunFolders
from redqueen.cli.report import check
from redqueen.errors import ConfigError
from redqueen.report.watch import WatchServer, is_local, yield_to_others


def watch(
    folders: RunFolders,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8733,
    host: Annotated[
        str,
        typer.Option(help="Where to answer; anything but this machine asks readers for a token."),
    ] = "127.0.0.1",
) -> None:
    """Show the report of a run in a browser while it goes on. It only reads; the run does not wait
    for it.
    """
    check(folders)
    try:
        server = WatchServer(folders, host, port)
    except OSError as error:
        raise ConfigError(
            f"cannot answer on {host}, port {port}: {error.strerror}. Choose another with --port, or 0 for any that is free"
        ) from error
    yield_to_others()
    console = Console(highlight=False)
    console.print(f"watching: {server.address}", soft_wrap=True, markup=False)
    if is_local(host):
        used = server.server_address[1]
        console.print(
            f"from another machine: ssh -L {used}:127.0.0.1:{used} THIS-MACHINE, then the same address there",
            markup=False,
        )
    else:
        console.print(
            "whoever has the address with its token can read this run, and the way there is not encrypted: a tunnel is safer",
            markup=False,
        )
    console.print("Ctrl-C ends it; the run goes on.", markup=False)
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
