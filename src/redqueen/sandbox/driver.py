"""The process that drives a pool for `RemoteSandbox`: jobs in, outcomes out.

    python -P -m redqueen.sandbox.driver CONNECTION_FD

A program of its own, so that the trainer's script is not imported again, as multiprocessing would.
"""

import contextlib
import io
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import fields
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Any

from redqueen.errors import RedQueenError
from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.sandbox.lockdown import die_with_parent
from redqueen.sandbox.pool import SandboxPool
from redqueen.sandbox.protocol import Inspection, Job, Limits, Outcome, Result


def serve(connection: Connection) -> None:
    """The config in, the walls out; then jobs in, outcomes out, until the trainer hangs up."""
    try:
        pool = SandboxPool(connection.recv())
    except (RedQueenError, OSError) as error:
        connection.send(error)  # raised in the trainer
        return
    with pool:
        connection.send(pool.walls)
        while True:
            send(connection, pool.run(connection.recv()))


def send(connection: Connection, message: list[Job] | list[Outcome]) -> None:
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(message)
    connection.send_bytes(buffer.getbuffer())


def _reduce_to_fields(record: type) -> Callable[[Any], tuple[type, tuple[Any, ...]]]:
    values = attrgetter(*(field.name for field in fields(record)))
    return lambda instance: (record, values(instance))


_REDUCERS: dict[type, Any] = {
    record: _reduce_to_fields(record)
    for record in (Job, Limits, Outcome, Result, Inspection, Complexity)
}
"""Records are pickled as the values of their fields: four times as fast as by default."""


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the trainer decides when this process ends
    with (
        contextlib.suppress(EOFError, ConnectionError),  # the trainer has hung up
        Connection(int(sys.argv[1])) as connection,
    ):
        serve(connection)


if __name__ == "__main__":
    main()
