"""A worker's process: `python -m redqueen.engine.blocks.process_worker FD`. A socket tells it
what to be and what to do, and ends when the other side does.

Errors that a user can cause are sent; by any other the process ends, with a traceback on its
standard error.
"""

import contextlib
import os
import pickle
import signal
import sys
import time
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock, Thread, main_thread
from typing import Any

from redqueen.engine.blocks.pulse import Pulse
from redqueen.engine.blocks.worker import BlockWorker, Hello
from redqueen.engine.protocol import EngineSpec, create_engine
from redqueen.errors import RedQueenError


class Channel:
    """Two threads write to it: the one that computes, and the one that says that it does."""

    def __init__(self, connection: Connection) -> None:
        self.received: SimpleQueue[Any] = SimpleQueue()
        self._connection, self._lock = connection, Lock()
        Thread(target=self._read, daemon=True).start()

    def send(self, kind: str, content: Any = None) -> None:
        message = pickle.dumps((kind, content), pickle.HIGHEST_PROTOCOL)
        with self._lock:
            self._connection.send_bytes(message)

    def beat(self, pulse: Pulse) -> None:
        with contextlib.suppress(OSError):  # the other side has ended: the reader sees it too
            while True:
                time.sleep(pulse.beat_s)
                if pulse.moved():
                    self.send("beat")

    def _read(self) -> None:
        """In a thread of its own, so that the end of the other side is seen while something
        runs."""
        try:
            while True:
                self.received.put(pickle.loads(self._connection.recv_bytes()))
        except (EOFError, OSError):
            os._exit(0)


def serve(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides when it ends
    channel = Channel(connection)
    spec: EngineSpec = channel.received.get()
    pulse = Pulse(main_thread().ident or 0, spec.config.hang_timeout_s)
    Thread(target=channel.beat, args=(pulse,), daemon=True).start()
    try:
        engine: Any = create_engine(spec.config.type, spec)
    except RedQueenError as error:
        channel.send("failed", error)
        return
    worker = BlockWorker(engine)
    channel.send("done", Hello.of(engine))
    while True:
        block, call = channel.received.get()
        try:
            result = worker.call(block, call, lambda columns: channel.send("finished", columns))
            channel.send("done", (result, worker.usage))
        except RedQueenError as error:
            channel.send("failed", error)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
