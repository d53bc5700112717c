"""The pool: many jobs over all cores, one worker for each, driven by one loop in the caller's thread.

At most one job for each worker is in flight; the rest wait in the caller's iterable, which is never
read ahead. A result depends on its job alone: every single run of a job is made on a replica of the
same kind, whichever worker takes it.
"""

import selectors
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import SandboxError
from redqueen.sandbox.jobs import Job, Outcome
from redqueen.sandbox.worker import Worker


class SandboxPool:
    """A Sandbox on this machine. Open it once (about a second), and close it, or use it as a
    context."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        self.most_in_flight = 0
        self.workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()
        self._watched_restarts = -1
        self._streaming = False
        try:
            for _ in range(self.config.worker_count()):
                self.workers.append(Worker(self.config))
            for worker in self.workers:
                for zygote in worker.zygotes:
                    zygote.wait_until_ready()
            self._test_walls()
        except BaseException:
            self.close()
            raise

    @property
    def walls(self) -> dict[str, str]:
        """Each wall, and `up` or why not."""
        return dict(self.workers[0].zygotes[0].walls)

    @property
    def restarts(self) -> int:
        return sum(worker.restarts for worker in self.workers)

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        outcomes: list[Outcome | None] = [None] * len(jobs)
        for index, outcome in self.stream(jobs):
            outcomes[index] = outcome
        assert all(outcome is not None for outcome in outcomes)
        return outcomes  # type: ignore[return-value]

    def stream(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        """(index, outcome) as they come to an end, not in order. One stream at a time; a pool
        belongs to one thread."""
        if not self.workers:
            raise SandboxError("this sandbox is closed")
        if self._streaming:
            raise SandboxError(
                "this sandbox is at work on another stream of jobs; let it end first, or open a second sandbox"
            )
        waiting = enumerate(jobs)
        idle, busy = list(self.workers), list[Worker]()
        self._streaming = True
        try:
            while True:
                while idle and (item := next(waiting, None)) is not None:
                    busy.append(idle.pop())
                    if outcome := busy[-1].start(*item):
                        idle.append(busy.pop())
                        yield item[0], outcome
                self.most_in_flight = max(self.most_in_flight, len(busy))
                if not busy:
                    return
                for worker, has_spoken in self._with_news(busy):
                    if outcome := worker.ready() if has_spoken else worker.failed():
                        busy.remove(worker)
                        idle.append(worker)
                        yield worker.index, outcome
        finally:
            self._streaming = False
            for worker in busy:  # the caller left early
                worker.drop()

    def _with_news(self, busy: list[Worker]) -> list[tuple[Worker, bool]]:
        """The workers whose zygote has spoken; where none has, those whose zygote has run out of
        time. In that order: the trainer itself may have been away, and an answer that is there
        counts."""
        if self._watched_restarts != self.restarts:
            self._watch()
        patience = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
        news: list[tuple[Worker, bool]] = []
        for key, _ in self._selector.select(patience):
            worker, zygote = key.data
            if worker.request is not None and zygote is worker.zygote:
                news.append((worker, True))
            else:  # one that is not in work speaks only by dying
                worker.restart(zygote)
        return news or [(worker, False) for worker in busy if worker.deadline <= time.monotonic()]

    def _watch(self) -> None:
        """Listen to every zygote there is; only those in work ever speak."""
        self._selector.close()
        self._selector = selectors.DefaultSelector()
        for worker in self.workers:
            for zygote in worker.zygotes:
                self._selector.register(zygote.socket, selectors.EVENT_READ, (worker, zygote))
        self._watched_restarts = self.restarts

    def _test_walls(self) -> None:
        from redqueen.sandbox.selftest import failures

        failed = failures(self)
        if failed and not self.config.unsafe:
            raise SandboxError(
                "the sandbox does not hold on this machine and refuses to run:\n"
                + "".join(f"  - {line}\n" for line in failed)
                + "Run inside a Linux container or VM with seccomp (Docker's default profile will do; bubblewrap helps where the kernel "
                "refuses), or, only for programs you trust, pass --sandbox=unsafe."
            )

    def close(self) -> None:
        for worker in self.workers:
            worker.hang_up()
        for worker in self.workers:
            worker.close()
        self._selector.close()
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
