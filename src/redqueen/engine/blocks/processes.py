"""`engine.type = "processes"`: one worker process a device, on one machine."""

import contextlib
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import IO, Any

from redqueen.engine.blocks.devices import Device, local_devices
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.redo_log import RedoLog
from redqueen.engine.blocks.start import start, worker_spec
from redqueen.engine.blocks.supervisor import Supervisor, WorkerDied
from redqueen.engine.blocks.worker import Call, Emit, Hello
from redqueen.engine.protocol import EngineSpec
from redqueen.engine.usage import Usage

START_S = 300.0
"""The least time without a sign of life while a worker starts: interpreters and libraries may come
from a slow disk."""
_LAST_WORDS = 2000
"""Characters of its standard error that are quoted when a worker dies."""

_LAST_S = 5.0
"""For a worker whose end of the socket is closed: by then it has ended by itself, with an exit code
of its own."""


class ProcessEngine:
    """One worker process for each device of this machine; on a CPU, workers share the cores."""

    @staticmethod
    def create(spec: EngineSpec) -> BlockEngine:
        layout, redo = BlockLayout.of(spec), RedoLog()
        own = worker_spec(spec, layout)
        workers = [
            Supervisor(
                number,
                f"the worker {number} on {device.name}",
                partial(Process, replace(own, device=device.torch), device),
                redo,
            )
            for number, device in enumerate(local_devices(spec)[: len(layout.sizes)])
        ]
        return BlockEngine(layout, workers, start(workers, spec), redo)


def launch(end: socket.socket, device: Device, stderr: IO[bytes]) -> "subprocess.Popen[bytes]":
    """A worker's process, which gets this end of a pair of sockets."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.process_worker", str(end.fileno())],
        pass_fds=[end.fileno()],
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        env={**os.environ, **device.environment, "PYTHONPATH": path},
        process_group=0,  # a Ctrl-C in the terminal is for the driver alone
    )


class Process:
    """A worker's process, and the socket to it."""

    def __init__(self, spec: EngineSpec, device: Device) -> None:
        self._spec, self._timeout = spec, spec.config.hang_timeout_s
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  it is closed with the process
        ours, theirs = socket.socketpair()
        # a worker that hangs may not read either
        timeout = struct.pack("ll", int(self._timeout), int(self._timeout % 1 * 1e6))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        with theirs:
            self.process = launch(theirs, device, self._stderr)
        self._pipe = Pipe(ours.detach())

    def wait_until_ready(self) -> Hello:
        self._send(self._spec)
        hello: Hello = self._receive(max(self._timeout, START_S), lambda columns: None)
        return hello

    def call(self, block: int, call: Call, emit: Emit) -> tuple[Any, Usage]:
        self._send((block, call))
        result, usage = self._receive(self._timeout, emit)
        return result, usage

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._pipe.close()
        self._stderr.close()

    def _send(self, message: Any) -> None:
        try:
            self._pipe.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        except BlockingIOError as error:
            raise WorkerDied(f"it has read nothing for {self._timeout:.0f} s") from error
        except OSError as error:
            raise self._died() from error

    def _receive(self, timeout: float, emit: Emit) -> Any:
        """The answer to the last message; completions that come before it are emitted."""
        while True:
            try:
                if not self._pipe.poll(timeout):
                    raise WorkerDied(f"nothing came from it for {timeout:.0f} s")
                kind, content = pickle.loads(self._pipe.recv_bytes())
            except (EOFError, OSError) as error:
                raise self._died() from error
            if kind == "done":
                return content
            if kind == "failed":
                raise content
            if kind == "finished":
                emit(content)

    def _died(self) -> WorkerDied:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LAST_S)
        self.process.kill()
        code = self.process.wait()
        name = f", {signal.Signals(-code).name}" if code < 0 else ""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _LAST_WORDS))
        words = self._stderr.read().decode(errors="replace").strip()
        return WorkerDied(
            f"it ended with exit code {code}{name}" + (f":\n{words}\n" if words else "")
        )
