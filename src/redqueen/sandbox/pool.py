"""A pool of workers on this machine, driven by one event loop in the caller's thread.

Each worker runs one job at a time; the caller's iterable is consumed as workers become free. A
result depends on its job alone: every run is made on the same kind of replica, whichever worker
takes the job.
"""

import selectors
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import SandboxError
from redqueen.sandbox.protocol import Job, Outcome
from redqueen.sandbox.worker import Worker


class SandboxPool:
    """A `Sandbox` on this machine. It takes about a second to open and belongs to one thread."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        self.most_in_flight = 0
        self.workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()
        self._registered_restarts = -1
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
        """Each wall, and `up` or the reason why it is down."""
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
        """(index, outcome) in the order in which jobs finish. One stream at a time."""
        if not self.workers:
            raise SandboxError("this sandbox is closed")
        if self._streaming:
            raise SandboxError(
                "this sandbox is at work on another stream of jobs; let it end first, or open a "
                "second sandbox"
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
                for worker, has_replied in self._wait(busy):
                    if outcome := worker.ready() if has_replied else worker.failed():
                        busy.remove(worker)
                        idle.append(worker)
                        yield worker.index, outcome
        finally:
            self._streaming = False
            for worker in busy:  # the caller left early
                worker.drop()

    def _wait(self, busy: list[Worker]) -> list[tuple[Worker, bool]]:
        """The workers whose zygote has replied (True); if there are none, those past their deadline
        (False). In this order, because the caller itself may have been away past a deadline, and a
        reply that has arrived counts."""
        if self._registered_restarts != self.restarts:
            self._register()
        timeout = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
        replied: list[tuple[Worker, bool]] = []
        for key, _ in self._selector.select(timeout):
            worker, zygote = key.data
            if worker.request is not None and zygote is worker.zygote:
                replied.append((worker, True))
            else:  # an idle zygote becomes readable only by dying
                worker.restart(zygote)
        return replied or [
            (worker, False) for worker in busy if worker.deadline <= time.monotonic()
        ]

    def _register(self) -> None:
        """Watch the sockets of all zygotes."""
        self._selector.close()
        self._selector = selectors.DefaultSelector()
        for worker in self.workers:
            for zygote in worker.zygotes:
                self._selector.register(zygote.socket, selectors.EVENT_READ, (worker, zygote))
        self._registered_restarts = self.restarts

    def _test_walls(self) -> None:
        from redqueen.sandbox.selftest import find_failures

        failures = find_failures(self)
        if failures and not self.config.unsafe:
            raise SandboxError(
                "the sandbox does not hold on this machine and refuses to run:\n"
                + "".join(f"  - {line}\n" for line in failures)
                + "Run inside a Linux container or VM with seccomp (Docker's default profile will "
                "do; bubblewrap helps where the kernel refuses), or, only for programs you trust, "
                "pass --sandbox=unsafe."
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

    def __exit__(self, *error: object) -> None:
        self.close()
