"""A sandbox that is driven by processes of its own: the trainer's interpreter, busy with the
engine, then does not slow it down.

Driving a pool takes Python a fraction of a millisecond a run. With many cores and a fast engine in
the same process the two would wait for each other's interpreter lock, and one process alone keeps
only a few cores busy: there is one for every few workers. What a job comes to is the same either way.
"""

import contextlib
import multiprocessing
import signal
from collections.abc import Sequence
from dataclasses import fields
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from types import TracebackType
from typing import Any, Self

from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import RedQueenError, SandboxError
from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.sandbox.jobs import Inspection, Job, Limits, Outcome, Result
from redqueen.sandbox.lockdown import die_with_parent
from redqueen.sandbox.pool import SandboxPool

_WORKERS_EACH = 4
"""A driver is busy for about a quarter of the time that a program runs."""


class RemoteSandbox:
    """A Sandbox. Open it once, and close it, or use it as a context. It belongs to one thread at a
    time."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        config = config or SandboxConfig()
        workers = config.worker_count()
        count = -(-workers // _WORKERS_EACH)
        shares = [workers // count + (number < workers % count) for number in range(count)]
        self.drivers: list[Driver] = []
        self.walls: dict[str, str] = {}
        """Each wall, and `up` or why not."""
        try:
            for share in shares:
                self.drivers.append(Driver(config.model_copy(update={"workers": share})))
            for driver in self.drivers:
                self.walls = driver.receive()
        except BaseException:
            self.close()
            raise

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Every driver gets every so manieth job, so that all have about as much to do."""
        if not jobs:
            return []
        outcomes: list[Outcome | None] = [None] * len(jobs)
        shares = [slice(number, None, len(self.drivers)) for number in range(len(self.drivers))]
        try:
            for driver, share in zip(self.drivers, shares, strict=True):
                driver.send(list(jobs[share]))
            for driver, share in zip(self.drivers, shares, strict=True):
                outcomes[share] = driver.receive()
        except (
            BaseException
        ):  # an answer that nobody has taken must not pass for that to the next question
            self.close()
            raise
        return outcomes  # type: ignore[return-value]

    def close(self) -> None:
        for driver in self.drivers:
            driver.hang_up()
        for driver in self.drivers:
            driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Driver:
    """The trainer's end of a process that drives a pool."""

    def __init__(self, config: SandboxConfig) -> None:
        context = multiprocessing.get_context(
            "spawn"
        )  # a fork would take the trainer's threads and its GPU with it
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, config), name="sandbox", daemon=True
        )
        self.process.start()
        theirs.close()

    def send(self, jobs: list[Job]) -> None:
        try:
            self.connection.send(jobs)
        except OSError as error:
            raise SandboxError("the sandbox is closed, or its process has ended") from error

    def receive(self) -> Any:
        """What it answers: first which walls there are, then outcomes. What went wrong there is
        raised here."""
        try:
            found = self.connection.recv()
        except (EOFError, OSError) as error:
            self.process.join(5)
            raise SandboxError(
                f"the process that drives the sandbox has ended (code {self.process.exitcode})"
            ) from error
        if isinstance(found, BaseException):
            raise found
        return found

    def hang_up(self) -> None:
        """The process ends by itself when nobody listens."""
        with contextlib.suppress(OSError):
            self.connection.close()

    def close(self) -> None:
        self.hang_up()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


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


def _cross_as_fields(kind: type) -> None:
    """A record crosses over as the values of its fields: the way that dataclasses have by
    themselves takes four times as long."""
    values = attrgetter(*(field.name for field in fields(kind)))
    ForkingPickler.register(kind, lambda record: (kind, values(record)))


for _kind in (Job, Limits, Outcome, Result, Inspection, Complexity):
    _cross_as_fields(_kind)
