"""A sandbox driven by its own processes, so that the trainer's interpreter does not slow it down.

Driving a pool costs a fraction of a millisecond of Python per run. In the trainer's process, pool
and engine would compete for the interpreter lock, and one process keeps only a few cores busy: so
there is a driver for every few workers. Outcomes are the same as those of a pool.
"""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Self

from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import SandboxError
from redqueen.sandbox.driver import send
from redqueen.sandbox.protocol import Job, Outcome

_WORKERS_PER_DRIVER = 4
"""A driver is busy for about a quarter of the time that a program runs."""


class RemoteSandbox:
    """A `Sandbox` in other processes. It belongs to one thread at a time, and ends with the thread
    that opened it."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        config = config or SandboxConfig()
        workers = config.worker_count()
        count = -(-workers // _WORKERS_PER_DRIVER)
        shares = [workers // count + (number < workers % count) for number in range(count)]
        self.drivers: list[Driver] = []
        self.walls: dict[str, str] = {}
        """Each wall, and `up` or the reason why it is down."""
        try:
            for share in shares:
                memory_mb = config.total_memory_mb() * share // workers
                update = {"workers": share, "memory_mb": memory_mb}
                self.drivers.append(Driver(config.model_copy(update=update)))
            for driver in self.drivers:
                self.walls = driver.receive()
        except BaseException:
            self.close()
            raise

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Jobs are dealt round-robin so that drivers are evenly loaded."""
        if not jobs:
            return []
        outcomes: list[Outcome | None] = [None] * len(jobs)
        shares = [slice(number, None, len(self.drivers)) for number in range(len(self.drivers))]
        try:
            for driver, share in zip(self.drivers, shares, strict=True):
                driver.send(list(jobs[share]))
            for driver, share in zip(self.drivers, shares, strict=True):
                outcomes[share] = driver.receive()
        except BaseException:
            self.close()  # outcomes not yet received must not be taken for those of the next jobs
            raise
        return outcomes  # type: ignore[return-value]

    def close(self) -> None:
        for driver in self.drivers:
            driver.hang_up()
        for driver in self.drivers:
            driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Driver:
    """The trainer's end of a process that drives a pool."""

    def __init__(self, config: SandboxConfig) -> None:
        near_end, far_end = socket.socketpair()
        self.connection = Connection(near_end.detach())
        with far_end:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "redqueen.sandbox.driver", str(far_end.fileno())],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                pass_fds=[far_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the trainer
            )
        with contextlib.suppress(OSError):  # it has ended already: `receive` will say so
            self.connection.send(config)

    def send(self, jobs: list[Job]) -> None:
        try:
            send(self.connection, jobs)
        except OSError as error:
            raise SandboxError("the sandbox is closed, or its process has ended") from error

    def receive(self) -> Any:
        """The next message: first the walls, then outcomes. Raises errors of the other process."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError) as error:
            exit_code = self._wait()
            raise SandboxError(
                f"the process that drives the sandbox has ended (code {exit_code})"
            ) from error
        if isinstance(message, BaseException):
            raise message
        return message

    def hang_up(self) -> None:
        """Close the connection; the process exits when it notices."""
        self.connection.close()

    def close(self) -> None:
        """Hang up and wait for the process to exit; kill it if it does not."""
        self.hang_up()
        if self._wait() is None:
            self.process.kill()
            self.process.wait()

    def _wait(self) -> int | None:
        try:
            return self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return None
