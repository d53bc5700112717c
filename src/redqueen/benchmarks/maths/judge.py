"""Grading of mathematics: worker processes that compare formulas, each killed and replaced when one
takes too long."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self

from redqueen.benchmarks.maths.text import LONGEST
from redqueen.benchmarks.suite import RIGHT, Verdict
from redqueen.errors import RedQueenError

TIMEOUT_S = 12.0


@dataclass(frozen=True, slots=True)
class Comparison:
    gold: str
    answer: str
    decimals: bool = False
    """A decimal fraction need only agree in the digits that gold has."""
    tolerance: float = 0.0


class _Worker:
    """One process, started when it is first needed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "redqueen.benchmarks.maths.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env={name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "HOME", "VIRTUAL_ENV")},
        )  # fmt: skip
        self.pending = b""
        self.job: int | None = None
        self.deadline = time.monotonic() + 120
        self.ready = False

    def start(self, job: int, comparison: Comparison, timeout_s: float) -> None:
        assert self.process.stdin is not None
        self.job, self.deadline = job, time.monotonic() + timeout_s
        try:
            self.process.stdin.write(json.dumps(asdict(comparison)).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # it has died in between: the reader notices
            pass

    def read(self) -> dict[str, bool] | None:
        """The next line it has written; None where there is no whole one yet. Raises EOFError where
        it has ended."""
        assert self.process.stdout is not None
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        if not chunk:
            raise EOFError
        self.pending += chunk
        if b"\n" not in self.pending:
            return None
        line, _, self.pending = self.pending.partition(b"\n")
        found: dict[str, bool] = json.loads(line)
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class MathsJudge:
    """Compares answers; opened when the first one comes. Use it as a context."""

    def __init__(self, workers: int | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self.size = workers or max(
            1,
            min(
                8,
                len(os.sched_getaffinity(0))
                if hasattr(os, "sched_getaffinity")
                else os.cpu_count() or 1,
            ),
        )
        self.workers: list[_Worker] = []

    def judge(self, comparisons: Sequence[Comparison]) -> list[Verdict]:
        """One verdict for each, in order. An answer that takes too long, or too much memory, is not
        right."""
        verdicts: list[Verdict | None] = [None] * len(comparisons)
        waiting = list(range(len(comparisons)))[::-1]
        for job in list(waiting):
            if len(comparisons[job].answer) > LONGEST:
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
        """Wait for the next word of any worker, or the end of its time."""
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                assert worker.process.stdout is not None
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            busy = [worker for worker in self.workers if worker.job is not None or not worker.ready]
            patience = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
            spoken = [key.data for key, _ in selector.select(patience)]
        for worker in spoken:
            self._hear(worker, verdicts)
        for worker in [
            worker
            for worker in self.workers
            if (worker.job is not None or not worker.ready) and worker.deadline <= time.monotonic()
        ]:
            self._replace(worker, "timeout", verdicts)
        for worker in self.workers:
            self._feed(worker, waiting, comparisons)

    def _hear(self, worker: _Worker, verdicts: list[Verdict | None]) -> None:
        try:
            said = worker.read()
        except (EOFError, ValueError):
            self._replace(worker, "memory", verdicts)
            return
        if said is None:
            return
        if "ready" in said:
            worker.ready = True
        elif worker.job is not None:
            verdicts[worker.job] = RIGHT if said.get("right") is True else Verdict(False, "wrong")
            worker.job = None

    def _replace(self, worker: _Worker, reason: str, verdicts: list[Verdict | None]) -> None:
        if not worker.ready:
            raise RedQueenError(
                "the process that compares formulas does not start: is the package math-verify installed? (`redqueen doctor`)"
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
