"""The pool: many jobs over all cores, one lane for each, driven by one loop in the caller's thread.

At most one job for each lane is in flight; the rest wait in the caller's iterable, which is never
read ahead. A result depends on its job alone: every single run of a job is made on a replica of the
same kind, whichever lane takes it.
"""

import selectors
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from redqueen.errors import SandboxError
from redqueen.sandbox.config import SandboxConfig
from redqueen.sandbox.jobs import Job, Outcome
from redqueen.sandbox.worker import Lane


class SandboxPool:
    """A Sandbox on this machine. Open it once (about a second), and close it, or use it as a
    context."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        self.most_in_flight = 0
        self.lanes: list[Lane] = []
        self._selector = selectors.DefaultSelector()
        self._watched_restarts = -1
        self._streaming = False
        try:
            for _ in range(self.config.lane_count()):
                self.lanes.append(Lane(self.config))
            for lane in self.lanes:
                for zygote in lane.zygotes:
                    zygote.wait_until_ready()
            self._test_walls()
        except BaseException:
            self.close()
            raise

    @property
    def walls(self) -> dict[str, str]:
        """Each wall, and `up` or why not."""
        return dict(self.lanes[0].zygotes[0].walls)

    @property
    def restarts(self) -> int:
        return sum(lane.restarts for lane in self.lanes)

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        outcomes: list[Outcome | None] = [None] * len(jobs)
        for index, outcome in self.stream(jobs):
            outcomes[index] = outcome
        assert all(outcome is not None for outcome in outcomes)
        return outcomes  # type: ignore[return-value]

    def stream(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        """(index, outcome) as they come to an end, not in order. One stream at a time; a pool
        belongs to one thread."""
        if not self.lanes:
            raise SandboxError("this sandbox is closed")
        if self._streaming:
            raise SandboxError(
                "this sandbox is at work on another stream of jobs; let it end first, or open a second sandbox"
            )
        waiting = enumerate(jobs)
        idle, busy = list(self.lanes), list[Lane]()
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
                for lane, has_spoken in self._with_news(busy):
                    if outcome := lane.ready() if has_spoken else lane.failed():
                        busy.remove(lane)
                        idle.append(lane)
                        yield lane.index, outcome
        finally:
            self._streaming = False
            for lane in busy:  # the caller left early
                lane.drop()

    def _with_news(self, busy: list[Lane]) -> list[tuple[Lane, bool]]:
        """The lanes whose zygote has spoken; where none has, those whose zygote has run out of
        time. In that order: the trainer itself may have been away, and an answer that is there
        counts."""
        if self._watched_restarts != self.restarts:
            self._watch()
        patience = max(0.0, min(lane.deadline for lane in busy) - time.monotonic())
        news: list[tuple[Lane, bool]] = []
        for key, _ in self._selector.select(patience):
            lane, zygote = key.data
            if lane.request is not None and zygote is lane.zygote:
                news.append((lane, True))
            else:  # one that is not in work speaks only by dying
                lane.restart(zygote)
        return news or [(lane, False) for lane in busy if lane.deadline <= time.monotonic()]

    def _watch(self) -> None:
        """Listen to every zygote there is; only those in work ever speak."""
        self._selector.close()
        self._selector = selectors.DefaultSelector()
        for lane in self.lanes:
            for zygote in lane.zygotes:
                self._selector.register(zygote.socket, selectors.EVENT_READ, (lane, zygote))
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
        for lane in self.lanes:
            lane.hang_up()
        for lane in self.lanes:
            lane.close()
        self._selector.close()
        self.lanes = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
