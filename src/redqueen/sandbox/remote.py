"""A sandbox that is driven by a process of its own: the trainer's interpreter, busy with the engine, then does not slow it down.

Driving a pool takes Python a fraction of a millisecond a job. With many cores and a fast engine in the same process the two would wait for
each other's interpreter lock. What a job comes to is the same either way.
"""

import contextlib
import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from redqueen.errors import RedQueenError, SandboxError
from redqueen.sandbox.config import SandboxConfig
from redqueen.sandbox.jobs import Job, Outcome
from redqueen.sandbox.lockdown import die_with_parent
from redqueen.sandbox.pool import SandboxPool


class RemoteSandbox:
    """A Sandbox. Open it once, and close it, or use it as a context. It belongs to one thread at a time."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would take the trainer's threads and its GPU with it
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, config or SandboxConfig()), name="sandbox", daemon=True)
        self._process.start()
        theirs.close()
        self.walls: dict[str, str] = {}
        """Each wall, and `up` or why not."""
        ready = self._receive()
        if isinstance(ready, dict):
            self.walls = ready

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        if not jobs:
            return []
        try:
            self._connection.send(list(jobs))
        except OSError as error:
            raise SandboxError("the sandbox is closed, or its process has ended") from error
        found = self._receive()
        assert isinstance(found, list)
        return found

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()  # it ends when nobody listens
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _receive(self) -> object:
        try:
            found = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            raise SandboxError(f"the process that drives the sandbox has ended (code {self._process.exitcode})") from error
        if isinstance(found, BaseException):
            self.close()
            raise found
        return found


def _serve(connection: Connection, config: SandboxConfig) -> None:
    """Jobs in, outcomes out, until the trainer closes the connection or is gone."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        pool = SandboxPool(config)
    except (RedQueenError, OSError) as error:  # for the trainer to hear
        connection.send(error)
        return
    with pool:
        connection.send(pool.walls)
        with contextlib.suppress(EOFError, OSError):
            while True:
                connection.send(pool.run(connection.recv()))
