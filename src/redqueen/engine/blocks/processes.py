"""`engine.type = "processes"`: one worker process a device, on one machine."""

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any

from redqueen.engine.blocks.devices import Device, local_devices
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.supervisor import Supervisor, WorkerDied
from redqueen.engine.blocks.worker import Call, Emit, Hello
from redqueen.engine.protocol import EngineSpec
from redqueen.engine.usage import Usage
from redqueen.errors import EngineError
from redqueen.models.base import load_tokenizer


class ProcessEngine:
    """The row of the table: makes an engine of processes."""

    @staticmethod
    def create(spec: EngineSpec) -> BlockEngine:
        layout = BlockLayout.of(spec)
        devices = local_devices(spec)[: len(layout.sizes)]
        own = worker_spec(spec, layout)
        workers = [
            Supervisor(
                f"the worker {number} on {device.name}",
                partial(Process, replace(own, device=device.torch), device),
                range(number, len(layout.sizes), len(devices)),
            )
            for number, device in enumerate(devices)
        ]
        return start(layout, workers, spec)


def worker_spec(spec: EngineSpec, layout: BlockLayout) -> EngineSpec:
    """What every worker makes its engine from: one of a block's slots."""
    config = spec.config.model_copy(
        update={"type": "torch", "block": "all", "threads": spec.config.threads or 1}
    )
    return replace(spec, slots=layout.largest, worlds=(), config=config)


def start(layout: BlockLayout, workers: Sequence[Supervisor], spec: EngineSpec) -> BlockEngine:
    """Workers load the base at the same time; the tokenizer is all that is loaded here."""
    try:
        with ThreadPoolExecutor(len(workers)) as threads:
            for _ in threads.map(Supervisor.start, workers):
                pass
    except BaseException as error:
        for worker in workers:
            worker.close()
        if isinstance(error, WorkerDied):
            raise EngineError(f"a worker died while it loaded the base: {error}") from error
        raise
    tokenizer = load_tokenizer(spec.base, workers[0].hello.end_tokens)
    return BlockEngine(layout, workers, tokenizer)


class Process:
    """A worker's process, and the socket to it."""

    hello: Hello

    def __init__(self, spec: EngineSpec, device: Device) -> None:
        self._timeout = spec.config.hang_timeout_s
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.process_worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={
                    **os.environ,
                    **device.environment,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
                process_group=0,  # a Ctrl-C in the terminal is for the driver alone
            )
        self._pipe = Pipe(ours.detach())
        try:
            self._send(spec)
            self.hello = self._receive(None, lambda columns: None)
        except BaseException:
            self.close()
            raise

    def call(self, block: int, call: Call, emit: Emit) -> tuple[Any, Usage]:
        self._send((block, call))
        result, usage = self._receive(self._timeout, emit)
        return result, usage

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._pipe.close()

    def _send(self, message: Any) -> None:
        try:
            self._pipe.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        except OSError as error:
            raise self._died() from error

    def _receive(self, timeout: float | None, emit: Emit) -> Any:
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
            emit(content)

    def _died(self) -> WorkerDied:
        self.process.kill()
        return WorkerDied(f"it ended with exit code {self.process.wait()}")
