"""Workers of `engine.type = "processes"` that are forked from a process that has imported torch:
starting them costs nothing, and all else is as it is."""

import os
import socket
import subprocess
from multiprocessing.connection import Connection
from typing import IO, Any

from redqueen.engine.blocks.devices import Device
from redqueen.engine.blocks.process_worker import serve
from tests.e2e.processes import context


class Forked:
    """What is used of `subprocess.Popen`."""

    def __init__(self, end: socket.socket, device: Device, stderr: IO[bytes]) -> None:
        with Connection(os.dup(end.fileno())) as ours, Connection(os.dup(stderr.fileno())) as words:
            self.process: Any = context.Process(
                target=_serve, args=(ours, words, device.environment), daemon=True
            )
            self.process.start()

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def kill(self) -> None:
        self.process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0)
        return int(self.process.exitcode)


def _serve(connection: Connection, stderr: Connection, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    os.dup2(stderr.fileno(), 2)
    os.setpgid(0, 0)
    serve(connection)
