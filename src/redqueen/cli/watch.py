"""`redqueen watch`: the live report of runs, in a browser."""

from contextlib import suppress
from typing import Annotated

import typer

from redqueen.cli.console import VisibleConsole
from redqueen.cli.options import RunFolders
from redqueen.errors import ConfigError
from redqueen.ledger.run_reader import open_run
from redqueen.report.watch import WatchServer, is_local, lower_priority


def watch(
    folders: RunFolders,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8733,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; any but this machine asks readers for a token."),
    ] = "127.0.0.1",
) -> None:
    """Show the report of a run in a browser while it is being played, and let people take part:
    pose problems, veto and rate them. It writes nothing to the ledger, and does not slow the run
    down.
    """
    for folder in folders:
        open_run(folder).close()  # fail before the server starts
    try:
        server = WatchServer(folders, host, port)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror}. "
            "Choose another with --port; 0 takes any free one."
        ) from error
    lower_priority()
    console = VisibleConsole()
    console.print(f"watching: {server.address}", soft_wrap=True)
    if is_local(host):
        console.print(
            "with this address people can pose, veto and rate problems; without its token the page "
            "only reads",
        )
        used = server.server_address[1]
        console.print(
            f"from another machine: ssh -L {used}:127.0.0.1:{used} THIS-MACHINE, "
            "then open the same address there",
        )
    else:
        console.print(
            "anyone with this address can read the run, and the connection is not encrypted: "
            "an SSH tunnel is safer",
        )
    console.print("Ctrl-C stops watching; the run continues.")
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
