"""A pool of workers on this machine, driven by one event loop in the caller's thread.

Each worker runs one job at a time; the caller's iterable is consumed as workers become free. A
result depends on its job alone: every run is made on the same kind of replica, whichever worker
takes the job.
"""

import logging
import selectors
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import SandboxError
from redqueen.sandbox.protocol import Job, Outcome
from redqueen.sandbox.replicas import JURY
from redqueen.sandbox.worker import Unfinished, Worker, peak_memory_mb

_log = logging.getLogger(__name__)


class SandboxPool:
    """A `Sandbox` on this machine: `with rq.Sandbox() as sandbox`. It takes about a second to open
    and belongs to one thread.

    - `config`: its settings, the section `sandbox` of a run.
    """

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        self.most_in_flight = 0
        self.workers: list[Worker] = []
        self.jury: Worker | None = None
        """Started for the first job that needs it; one for all workers."""
        self.memory_mb = self.config.total_memory_mb()
        self._selector = selectors.DefaultSelector()
        self._registered: tuple[int, bool] | None = None
        self._warned_of_memory = False
        self._streaming = False
        try:
            for _ in range(self.config.worker_count()):
                self.workers.append(Worker(self.config))
            for worker in self.workers:
                worker.wait_until_ready()
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
        """How often a worker was started anew."""
        return sum(worker.restarts for worker in self._all_workers())

    def _all_workers(self) -> list[Worker]:
        return self.workers if self.jury is None else [*self.workers, self.jury]

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """One outcome for each of `jobs`, in order."""
        outcomes: list[Outcome | None] = [None] * len(jobs)
        for index, outcome in self.stream(jobs):
            outcomes[index] = outcome
        assert all(outcome is not None for outcome in outcomes)
        return outcomes  # type: ignore[return-value]

    def stream(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        """(index, outcome) of each of `jobs`, in the order in which they finish. One stream at a
        time."""
        if not self.workers:
            raise SandboxError("this sandbox is closed")
        if self._streaming:
            raise SandboxError(
                "this sandbox is busy with another stream of jobs; let it end first, or open a "
                "second sandbox"
            )
        waiting, held = enumerate(jobs), list[tuple[int, Job]]()
        idle, busy, for_jury = list(self.workers), list[Worker](), list[Unfinished]()
        self._streaming = True
        try:
            while True:
                if for_jury and idle and self._open_jury() not in busy:
                    busy.append(self._open_jury())
                    busy[-1].take_over(for_jury.pop(0))
                while len(busy) < len(self.workers):
                    item = held.pop() if held else next(waiting, None)
                    if item is None:
                        break
                    if busy and not self._has_memory_for(item[1], busy):
                        held.append(item)
                        break
                    busy.append(idle.pop())
                    if outcome := busy[-1].start(*item):
                        idle.append(busy.pop())
                        yield item[0], outcome
                self.most_in_flight = max(self.most_in_flight, len(busy))
                if not busy:
                    return
                for worker, has_replied in self._wait(busy):
                    outcome = worker.ready() if has_replied else worker.failed()
                    if worker.needs_jury:
                        for_jury.append(worker.hand_over())
                    elif not outcome:
                        continue
                    busy.remove(worker)
                    if worker is not self.jury:
                        idle.append(worker)
                    if outcome:
                        yield worker.index, outcome
        finally:
            self._streaming = False
            for worker in busy:  # the caller left early
                worker.drop()

    def _open_jury(self) -> Worker:
        if self.jury is None:
            self.jury = Worker(self.config, JURY)
            self.jury.wait_until_ready()
        return self.jury

    def _has_memory_for(self, job: Job, busy: list[Worker]) -> bool:
        needed = peak_memory_mb(job)
        if needed + sum(worker.memory_mb for worker in busy) <= self.memory_mb:
            return True
        if not self._warned_of_memory:
            self._warned_of_memory = True
            _log.warning(
                "the sandbox runs fewer programs at a time than it has workers (%d): each may use "
                "%d MiB, and there are %d MiB for all (sandbox.memory_mb)",
                len(self.workers),
                needed,
                self.memory_mb,
            )
        return False

    def _wait(self, busy: list[Worker]) -> list[tuple[Worker, bool]]:
        """The workers whose zygote has replied (True); if there are none, those past their deadline
        (False). In this order, because the caller itself may have been away past a deadline, and a
        reply that has arrived counts."""
        if self._registered != (self.restarts, self.jury is None):
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
        for worker in self._all_workers():
            for zygote in worker.zygotes.values():
                self._selector.register(zygote.socket, selectors.EVENT_READ, (worker, zygote))
        self._registered = self.restarts, self.jury is None

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
        """End its processes."""
        for worker in self._all_workers():
            worker.hang_up()
        for worker in self._all_workers():
            worker.close()
        self._selector.close()
        self.workers, self.jury = [], None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
