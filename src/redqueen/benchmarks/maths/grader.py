"""Grades maths in worker processes that compare formulas; one that takes too long is killed and
replaced."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Self

from redqueen.benchmarks.maths.text import MAX_CHARS
from redqueen.benchmarks.suite import CORRECT, Verdict
from redqueen.errors import RedQueenError

TIMEOUT_S = 12.0
START_TIMEOUT_S = 120.0
_ENVIRONMENT = ("PATH", "PYTHONPATH", "HOME", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Comparison:
    gold: str
    answer: str
    decimals: bool = False
    """A decimal fraction need only agree in the digits that gold has."""
    tolerance: float = 0.0


class _Worker:
    """One worker process and the comparison it is working on."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "redqueen.benchmarks.maths.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
        )
        self.pending = b""
        self.job: int | None = None
        self.deadline = time.monotonic() + START_TIMEOUT_S
        self.ready = False

    def is_busy(self) -> bool:
        return self.job is not None or not self.ready

    def is_late(self) -> bool:
        return self.is_busy() and self.deadline <= time.monotonic()

    def start(self, job: int, comparison: Comparison, timeout_s: float) -> None:
        assert self.process.stdin is not None
        self.job, self.deadline = job, time.monotonic() + timeout_s
        try:
            self.process.stdin.write(json.dumps(asdict(comparison)).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # it died; `read` notices
            pass

    def read(self) -> dict[str, bool] | None:
        """The next message; None if it is incomplete. Raises EOFError if the process ended."""
        assert self.process.stdout is not None
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        if not chunk:
            raise EOFError
        self.pending += chunk
        if b"\n" not in self.pending:
            return None
        line, _, self.pending = self.pending.partition(b"\n")
        message: dict[str, bool] = json.loads(line)
        return message

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class MathsGrader:
    """A pool of workers, started with the first comparison. Use it as a context manager."""

    def __init__(self, workers: int | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self.size = workers or min(8, _cpu_count())
        self.workers: list[_Worker] = []

    def grade(self, comparisons: Sequence[Comparison]) -> list[Verdict]:
        """One verdict for each, in order. An answer that takes too long, or too much memory, is
        wrong."""
        verdicts: list[Verdict | None] = [None] * len(comparisons)
        waiting = list(range(len(comparisons)))[::-1]
        for job in list(waiting):
            if len(comparisons[job].answer) > MAX_CHARS:
                verdicts[job] = Verdict(False, "too long")
                waiting.remove(job)
        while len(self.workers) < min(self.size, len(waiting)):
            self.workers.append(_Worker())
        for worker in self.workers:
            self._feed(worker, waiting, comparisons)
        while any(
            worker.job is not None or (waiting and not worker.ready) for worker in self.workers
        ):
            self._step(waiting, comparisons, verdicts)
        assert all(verdict is not None for verdict in verdicts)
        return [verdict for verdict in verdicts if verdict is not None]

    def _feed(self, worker: _Worker, waiting: list[int], comparisons: Sequence[Comparison]) -> None:
        if worker.ready and worker.job is None and waiting:
            job = waiting.pop()
            worker.start(job, comparisons[job], self.timeout_s)

    def _step(
        self, waiting: list[int], comparisons: Sequence[Comparison], verdicts: list[Verdict | None]
    ) -> None:
        """Wait for the next message of any worker, or for a deadline."""
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                assert worker.process.stdout is not None
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            busy = [worker for worker in self.workers if worker.is_busy()]
            timeout = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
            readable = [key.data for key, _ in selector.select(timeout)]
        for worker in readable:
            self._receive(worker, verdicts)
        for worker in [worker for worker in self.workers if worker.is_late()]:
            self._replace(worker, "timeout", verdicts)
        for worker in self.workers:
            self._feed(worker, waiting, comparisons)

    def _receive(self, worker: _Worker, verdicts: list[Verdict | None]) -> None:
        try:
            message = worker.read()
        except (EOFError, ValueError):
            self._replace(worker, "memory", verdicts)
            return
        if message is None:
            return
        if "ready" in message:
            worker.ready = True
        elif worker.job is not None:
            is_correct = message.get("correct") is True
            verdicts[worker.job] = CORRECT if is_correct else Verdict(False, "wrong")
            worker.job = None

    def _replace(self, worker: _Worker, reason: str, verdicts: list[Verdict | None]) -> None:
        if not worker.ready:
            raise RedQueenError(
                "the process that compares formulas does not start: is the package math-verify "
                "installed? (`redqueen doctor`)"
            )
        worker.close()
        if worker.job is not None:
            verdicts[worker.job] = Verdict(False, reason)
        self.workers[self.workers.index(worker)] = _Worker()

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _cpu_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
