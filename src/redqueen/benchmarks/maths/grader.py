"""Grades maths in worker processes that compare formulas behind the sandbox's walls. A comparison
that takes too long ends by its CPU limit; a worker that does not answer is killed and replaced."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from redqueen.benchmarks.maths.text import MAX_CHARS
from redqueen.benchmarks.suite import Verdict
from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import RedQueenError, SandboxError

CPU_S = 5.0
START_TIMEOUT_S = 120.0
MAX_KNOWN = 100_000
"""Comparisons whose verdicts are kept."""
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

    def __init__(self, arguments: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "redqueen.benchmarks.maths.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
        )
        self.pending = b""
        self.job: int | None = None
        self.started = time.monotonic()
        self.deadline = self.started + START_TIMEOUT_S
        self.ready = False

    def is_busy(self) -> bool:
        return self.job is not None or not self.ready

    def is_late(self) -> bool:
        return self.is_busy() and self.deadline <= time.monotonic()

    def start(self, job: int, comparison: Comparison, timeout_s: float) -> None:
        assert self.process.stdin is not None
        self.job, self.started = job, time.monotonic()
        self.deadline = self.started + timeout_s
        try:
            self.process.stdin.write(json.dumps(asdict(comparison)).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # it died; `read` notices
            pass

    def read(self) -> dict[str, Any] | None:
        """The next message; None if it is incomplete. Raises EOFError if the process ended."""
        assert self.process.stdout is not None
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        if not chunk:
            raise EOFError
        self.pending += chunk
        if b"\n" not in self.pending:
            return None
        line, _, self.pending = self.pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class MathsGrader:
    """A pool of workers, started with the first comparison. Use it as a context manager.

    The limit of a comparison is CPU time, because on a loaded machine a wall limit would kill
    honest ones. `sandbox` says which walls may be left down."""

    def __init__(
        self,
        workers: int | None = None,
        cpu_s: float = CPU_S,
        sandbox: SandboxConfig | None = None,
    ) -> None:
        config = sandbox or SandboxConfig()
        self.timeout_s = 10 * cpu_s
        self.size = workers or min(8, config.worker_count())
        self.workers: list[_Worker] = []
        self.walls: dict[str, str] = {}
        """Each wall of the workers, once one is ready: `up` or the reason why it is down."""
        unsafe = ["unsafe"] if config.unsafe else []
        self._arguments = [str(cpu_s), *config.without, *unsafe]
        self._known: dict[Comparison, Verdict] = {}

    def grade(self, comparisons: Sequence[Comparison]) -> list[Verdict]:
        """One verdict for each, in order. An answer that takes too long, or too much memory, is
        wrong. What was compared before is not compared again."""
        new = [one for one in dict.fromkeys(comparisons) if one not in self._known]
        known = self._known | dict(zip(new, self._grade(new), strict=True))
        self._known = known if len(known) <= MAX_KNOWN else {}
        return [known[comparison] for comparison in comparisons]

    def _grade(self, comparisons: Sequence[Comparison]) -> list[Verdict]:
        verdicts: list[Verdict | None] = [None] * len(comparisons)
        waiting = list(range(len(comparisons)))[::-1]
        for job in list(waiting):
            if len(comparisons[job].answer) > MAX_CHARS:
                verdicts[job] = Verdict(False, "too long")
                waiting.remove(job)
        while len(self.workers) < min(self.size, len(waiting)):
            self.workers.append(_Worker(self._arguments))
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
        if "refused" in message:
            raise SandboxError(
                "formulas cannot be compared safely on this machine: its system call filter is "
                f"{message['refused']}. Run inside a Linux container or VM with seccomp, or pass "
                "--sandbox=unsafe."
            )
        if "ready" in message:
            worker.ready, self.walls = True, message["ready"]
        elif worker.job is not None:
            reason = "" if message["correct"] else message["reason"] or "wrong"
            seconds = time.monotonic() - worker.started
            verdicts[worker.job] = Verdict(message["correct"], reason, seconds)
            worker.job = None

    def _replace(self, worker: _Worker, reason: str, verdicts: list[Verdict | None]) -> None:
        if not worker.ready:
            raise RedQueenError(
                "the process that compares formulas does not start: is the package math-verify "
                "installed? (`redqueen doctor`)"
            )
        worker.close()
        if worker.job is not None:
            verdicts[worker.job] = Verdict(False, reason, time.monotonic() - worker.started)
        self.workers[self.workers.index(worker)] = _Worker(self._arguments)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
