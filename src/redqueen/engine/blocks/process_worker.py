"""A worker's process: `python -m redqueen.engine.blocks.process_worker FD`. A socket tells it
what to be and what to do, and ends when the other side does."""

import os
import pickle
import signal
import sys
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any

from redqueen.engine.blocks.worker import BlockWorker, Hello
from redqueen.engine.protocol import EngineSpec, create_engine
from redqueen.errors import RedQueenError


def serve(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides when it ends
    messages: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_read, args=(connection, messages), daemon=True).start()
    spec: EngineSpec = messages.get()
    try:
        engine: Any = create_engine(spec.config.type, spec)
    except RedQueenError as error:
        _send(connection, "failed", error)
        return
    worker = BlockWorker(engine)
    _send(connection, "done", Hello.of(engine))
    while True:
        block, call = messages.get()
        try:
            result = worker.call(
                block, call, lambda columns: _send(connection, "finished", columns)
            )
            _send(connection, "done", (result, worker.usage))
        except RedQueenError as error:
            _send(connection, "failed", error)


def _read(connection: Connection, messages: "SimpleQueue[Any]") -> None:
    """In a thread of its own, so that the end of the other side is seen while something runs."""
    try:
        while True:
            messages.put(pickle.loads(connection.recv_bytes()))
    except (EOFError, OSError):
        os._exit(0)


def _send(connection: Connection, kind: str, content: Any) -> None:
    connection.send_bytes(pickle.dumps((kind, content), pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
