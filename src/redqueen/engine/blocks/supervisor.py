"""Workers that are replaced when they die.

A block's state is what the last checkpoint holds, and the calls since then that have changed it:
the redo log, a few megabytes of samples. Made again in their order, they give the same bits. So a
new worker gets where the dead one was, and the call that was under way is made again. When that
happens is a matter of time; what comes of it is not.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from redqueen.engine.blocks.worker import Call, Emit, Hello
from redqueen.engine.usage import Usage
from redqueen.errors import EngineError

log = logging.getLogger(__name__)

_DEATHS = 3
"""In one call. What kills a worker again and again is the call's fault."""


class WorkerDied(Exception):
    """A worker has ended, or does nothing any more."""


class Connection(Protocol):
    """A worker elsewhere that is alive, or was when it was last heard of."""

    hello: Hello

    def call(self, block: int, call: Call, emit: Emit) -> tuple[Any, Usage]:
        """Raises WorkerDied, or what the worker's engine has raised."""
        ...

    def close(self) -> None: ...


class Supervisor:
    is_remote = True

    def __init__(self, name: str, connect: Callable[[], Connection], blocks: Sequence[int]) -> None:
        self.name, self.restarts, self.usage = name, 0, Usage()
        self._connect = connect
        self._connection: Connection | None = None
        self._hello: Hello | None = None
        self._checkpoint: tuple[Path, Mapping[int, Mapping[int, str]]] | None = None
        self._redo: dict[int, list[Call]] = {block: [] for block in blocks}
        self._closed = False

    @property
    def hello(self) -> Hello:
        assert self._hello is not None, "start it first"
        return self._hello

    def start(self) -> None:
        """Until it is ready."""
        connection = self._connect()
        self._connection, self._hello = connection, connection.hello

    def call(self, block: int, call: Call, emit: Emit) -> Any:
        deaths = 0
        while True:
            try:
                if self._connection is None:
                    self._replace()
                assert self._connection is not None
                result, usage = self._connection.call(block, call, emit)
                break
            except (WorkerDied, EngineError) as error:
                self._drop()
                deaths += 1
                if self._closed or deaths == _DEATHS:
                    raise EngineError(
                        f"{self.name} died {deaths} times in the call '{call.name}' of block "
                        f"{block}: {error}"
                    ) from error
                log.warning("%s died in '%s': %s. Starting another.", self.name, call.name, error)
        if call.changes:
            self._redo[block].append(call)
        self.usage.add(usage)
        return result

    def checkpointed(self, folder: Path, names: Mapping[int, Mapping[int, str]]) -> None:
        """What was done until now is in this folder."""
        self._checkpoint = folder, names
        for calls in self._redo.values():
            calls.clear()

    def close(self) -> None:
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _replace(self) -> None:
        """Another worker, with the blocks as they were."""
        self.restarts += 1
        self.start()
        assert self._connection is not None
        folder, names = self._checkpoint or (Path(), {})
        for block, calls in self._redo.items():
            saved = [Call("load", (folder, names[block]))] if names.get(block) else []
            for call in (*saved, *calls):
                self._connection.call(block, call, lambda columns: None)
