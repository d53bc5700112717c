"""Checkpoints that are written while the next step is played: one at a time, in a thread."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from redqueen.ledger.checkpoint import Checkpoints


class BackgroundWriter:
    """What it writes must not change any more: weights in a copy, the state as text. While it
    works, nobody else may save. A write that fails is raised by the next call of anything here."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self.seconds = 0.0
        """That the last write took."""
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[Path] | None = None

    def submit(
        self, step: int, write: Callable[[Path], Sequence[Path]], state: Mapping[str, Any]
    ) -> None:
        """Begin to write a checkpoint, as `Checkpoints.save` does."""
        self.wait()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "redqueen-checkpoints")
        # the worlds go on while it is written
        self._writing = self._thread.submit(self._write, step, write, json.dumps(state))

    def check(self) -> None:
        """Raise what a write has raised; do not wait for one."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Until all of it is on the disk."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown()

    def _write(self, step: int, write: Callable[[Path], Sequence[Path]], state: str) -> Path:
        started = time.monotonic()
        folder = self.checkpoints.write(step, write, state)
        self.seconds = time.monotonic() - started
        return folder
