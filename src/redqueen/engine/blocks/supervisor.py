"""Workers that are replaced when they die.

A new worker gets a block to where the dead one had it (`redo_log.py`), and the call that was under
way is made again. When that happens is a matter of time; what comes of it is not.
"""

import logging
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

from redqueen.engine.blocks.redo_log import RedoLog
from redqueen.engine.blocks.worker import Call, Emit, Hello
from redqueen.engine.usage import Usage
from redqueen.errors import ConfigError, EngineError

log = logging.getLogger(__name__)

_DEATHS = 3
"""In one call: what kills a worker again and again is the call's fault. While starting: its
device's."""


class WorkerDied(Exception):
    """A worker has ended, or does nothing any more."""


class WorkerLost(Exception):
    """A worker that cannot be replaced: others have to take its blocks."""


class NoRoom(WorkerLost):
    """Nothing is wrong with it, but there is no place where it could be."""


class Connection(Protocol):
    """A worker elsewhere that is alive, or was when it was last heard of."""

    def wait_until_ready(self) -> Hello:
        """Raises WorkerDied, NoRoom, or what its engine has raised."""
        ...

    def call(self, block: int, call: Call, emit: Emit) -> tuple[Any, Usage]:
        """Raises WorkerDied, or what its engine has raised."""
        ...

    def kill(self) -> None:
        """From any thread. A call that is under way ends with WorkerDied."""
        ...

    def close(self) -> None:
        """Kill it and give back what belongs to it, when no call is under way."""
        ...


class Supervisor:
    is_remote = True
    fingerprint = ""
    """That its base must have: that of the other workers."""

    def __init__(
        self, number: int, name: str, connect: Callable[[], Connection], redo: RedoLog
    ) -> None:
        self.number, self.name = number, name
        self.restarts, self.usage = 0, Usage()
        self._connect, self._redo = connect, redo
        self._connection: Connection | None = None
        self._hello: Hello | None = None
        self._holds: set[int] = set()
        """Blocks that the present worker has as they are."""
        self._closed, self._lock = False, Lock()

    @property
    def hello(self) -> Hello:
        assert self._hello is not None, "start it first"
        return self._hello

    def start(self) -> Connection:
        """Until it is ready."""
        with self._lock:  # so that `kill` finds every worker that there is
            if self._closed:
                raise WorkerDied("it was closed")
            self._connection = self._connect()
        hello = self._connection.wait_until_ready()
        found, expected = hello.base.fingerprint, self.fingerprint
        if expected and found != expected:
            raise ConfigError(
                f"{self.name} ({hello.host}) has other weights of '{hello.base.name}' than the "
                f"other workers: {found} instead of {expected}"
            )
        self._hello = hello
        return self._connection

    def call(self, block: int, call: Call, emit: Emit) -> Any:
        deaths = 0
        while True:
            connection = self._connection or self._replace()
            try:
                if call.needs_block:
                    self._restore(connection, block)
                result, usage = connection.call(block, call, emit)
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
            self._redo.add(block, call)
        self.usage.add(usage)
        return result

    def forget(self, block: int) -> None:
        """The block is another worker's from now on."""
        if block in self._holds:
            self._holds.discard(block)
            self._try(block, Call("forget"))

    def hand_over(self, block: int) -> bytes | None:
        """The block as it is, for another worker, whose it is from now on. None where this one
        does not have it, or dies: then the redo log has it."""
        packed = self._try(block, Call("pack")) if block in self._holds else None
        self.forget(block)
        return None if packed is None else packed[0]

    def take_over(self, block: int, packed: bytes) -> None:
        if self._try(block, Call("unpack", (packed,))) is not None:
            self._holds.add(block)

    def _try(self, block: int, call: Call) -> tuple[Any, Usage] | None:
        """A call that need not succeed: what it would have done is done by the next one that needs
        the block."""
        if self._connection is not None:
            try:
                return self._connection.call(block, call, _ignore)
            except (WorkerDied, EngineError):
                self._drop()
        return None

    def kill(self) -> None:
        """For good, from any thread."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.kill()

    def close(self) -> None:
        self.kill()
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        self._holds.clear()
        if connection is not None:
            connection.close()

    def _replace(self) -> Connection:
        deaths = 0
        while True:
            self.restarts += 1
            try:
                return self.start()
            except (WorkerDied, EngineError) as error:
                self._drop()
                deaths += 1
                if self._closed or deaths == _DEATHS:
                    raise WorkerLost(
                        f"{self.name} died {deaths} times while it loaded the base: {error}"
                    ) from error
            except BaseException:
                self._drop()
                raise

    def _restore(self, connection: Connection, block: int) -> None:
        if block in self._holds:
            return
        for call in self._redo.restoring(block):
            connection.call(block, call, _ignore)
        self._holds.add(block)


def _ignore(columns: object) -> None:
    pass
