"""Workers, and which blocks each one has.

Workers come and go, blocks stay: between steps a worker that has joined gets some, and those of one
that cannot be replaced go to the others, also within a step.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from redqueen.engine.blocks.columns import Completions
from redqueen.engine.blocks.supervisor import NoRoom, WorkerDied, WorkerLost
from redqueen.engine.blocks.worker import Call, Emit, Hello
from redqueen.engine.usage import Usage
from redqueen.errors import EngineError, RedQueenError

log = logging.getLogger(__name__)


class Worker(Protocol):
    """Computes blocks, one call after another."""

    @property
    def number(self) -> int: ...

    @property
    def is_remote(self) -> bool:
        """Whether it computes while this process does something else."""
        ...

    @property
    def hello(self) -> Hello: ...

    @property
    def usage(self) -> Usage:
        """Since it was last cleared."""
        ...

    @property
    def restarts(self) -> int: ...

    def call(self, block: int, call: Call, emit: Emit) -> Any: ...

    def forget(self, block: int) -> None: ...

    def hand_over(self, block: int) -> bytes | None: ...

    def take_over(self, block: int, packed: bytes) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


class Recruit(Worker, Protocol):
    """A worker that is yet to start."""

    fingerprint: str

    def start(self) -> object: ...


Recruiter = Callable[[int, int], Recruit | None]
"""Given how many workers there are and the number it would have: another one, where there is room
for it."""
Receive = Callable[[int, Completions], None]


class Crew:
    def __init__(
        self, blocks: int, workers: Sequence[Worker], recruit: Recruiter = lambda has, number: None
    ) -> None:
        self.workers = list(workers)
        self._threads = {worker.number: _thread(worker) for worker in workers}
        self._blocks, self._recruit = blocks, recruit
        self._joining: list[tuple[Recruit, Future[object]]] = []
        self._next_number = len(workers)
        self.seconds: dict[int, float] = {}
        """Of each block in the last call."""
        self._places: dict[int, int] = {}
        """By block: the number of its worker."""
        self._place()

    def run(self, calls: Mapping[int, Call], receive: Receive) -> dict[int, Any]:
        """All workers at once, each one block after another. `receive` is called in this thread."""
        results: dict[int, Any] = {}
        self.seconds = {}
        events: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        """A block and its completions, or a worker and its future when it is through."""

        def work(worker: Worker, blocks: Sequence[int], emit: Receive) -> None:
            for block in blocks:
                started = time.monotonic()
                results[block] = worker.call(block, calls[block], partial(emit, block))
                self.seconds[block] = time.monotonic() - started

        def submit(blocks: Iterable[int]) -> int:
            own: dict[int, list[int]] = {}
            for block in blocks:
                own.setdefault(self._places[block], []).append(block)
            for worker in [worker for worker in self.workers if worker.number in own]:
                thread = self._threads[worker.number]
                if thread is None:
                    work(worker, own.pop(worker.number), receive)
                    continue
                future = thread.submit(work, worker, own[worker.number], _put(events))
                future.add_done_callback(partial(_put(events), worker))
            return len(own)

        running = submit(calls)
        while running:
            origin, content = events.get()
            if not isinstance(content, Future):
                receive(origin, content)
                continue
            running -= 1
            try:
                content.result()
            except WorkerLost as error:
                left = [b for b in calls if self._places[b] == origin.number and b not in results]
                self._lose(origin, error)
                running += submit(left)
        return results

    @property
    def places(self) -> Mapping[int, int]:
        """By block: the number of its worker."""
        return self._places

    def move(self, places: Mapping[int, int]) -> int:
        """Blocks, as they are, to the workers with these numbers; the bytes that it took. Only
        between remote workers."""
        moved = {block: to for block, to in places.items() if to != self._places[block]}
        givers = {block: self._submit(self._places[block], "hand_over", block) for block in moved}
        packed = {block: giver.result() for block, giver in givers.items()}
        self._places.update(moved)
        known = {block: content for block, content in packed.items() if content is not None}
        for taker in [
            self._submit(moved[block], "take_over", block, known[block]) for block in known
        ]:
            taker.result()
        return sum(map(len, known.values()))

    def _submit(self, number: int, name: str, *arguments: Any) -> Future[Any]:
        worker = next(one for one in self.workers if one.number == number)
        thread = self._threads[number]
        assert thread is not None
        return thread.submit(getattr(worker, name), *arguments)

    def worker_of(self, block: int) -> Worker:
        return next(one for one in self.workers if one.number == self._places[block])

    def follow(self) -> None:
        """Between steps: workers that are ready by now join, and more are started where there is
        room. Loading the base takes a while; nobody waits for it."""
        joined = [(worker, future) for worker, future in self._joining if future.done()]
        for worker, future in joined:
            self._joining.remove((worker, future))
            try:
                future.result()
            except (RedQueenError, WorkerDied, WorkerLost) as error:
                log.warning("a worker that was to join could not: %s", error)
                self._dismiss(worker)
            else:
                log.info("worker %d has joined on %s", worker.number, worker.hello.host)
                self.workers.append(worker)
        if any(worker in self.workers for worker, _ in joined):
            self._place()
        while (has := len(self.workers) + len(self._joining)) < self._blocks:
            recruit = self._recruit(has, self._next_number)
            if recruit is None:
                return
            recruit.fingerprint = self.workers[0].hello.base.fingerprint
            thread = self._threads[recruit.number] = ThreadPoolExecutor(1)
            self._joining.append((recruit, thread.submit(recruit.start)))
            self._next_number += 1

    def close(self) -> None:
        everybody = [*self.workers, *(worker for worker, _ in self._joining)]
        for worker in everybody:
            worker.kill()
        for thread in filter(None, self._threads.values()):
            thread.shutdown(wait=True, cancel_futures=True)
        for worker in everybody:
            worker.close()

    def _lose(self, worker: Worker, error: WorkerLost) -> None:
        """Its blocks go to the others. The last one waits for room as long as it takes."""
        if len(self.workers) > 1:
            log.warning("%s. Its blocks go to the others.", error)
            self.workers.remove(worker)
            self._dismiss(worker)
            self._place()
        elif isinstance(error, NoRoom):
            log.warning("%s. Waiting for room.", error)
        else:
            raise EngineError(str(error)) from error

    def _dismiss(self, worker: Worker) -> None:
        worker.close()
        thread = self._threads.pop(worker.number)
        assert thread is not None
        thread.shutdown(wait=False)

    def _place(self) -> None:
        numbers = [worker.number for worker in self.workers]
        before, self._places = self._places, spread(self._blocks, numbers, self._places)
        for worker in self.workers:
            for block, number in before.items():
                if number == worker.number and self._places[block] != number:
                    worker.forget(block)


def spread(blocks: int, workers: Sequence[int], before: Mapping[int, int]) -> dict[int, int]:
    """A worker for each block, evenly, with as few moves as that takes."""
    own: dict[int, list[int]] = {worker: [] for worker in workers}
    homeless = []
    for block in range(blocks):
        own[before[block]].append(block) if before.get(block) in own else homeless.append(block)
    for block in homeless:
        min(own.values(), key=len).append(block)
    while True:
        most, least = max(own.values(), key=len), min(own.values(), key=len)
        if len(most) - len(least) < 2:
            return {block: worker for worker, has in own.items() for block in has}
        least.append(most.pop())


def _put(events: "SimpleQueue[tuple[Any, Any]]") -> Callable[[Any, Any], None]:
    return lambda origin, content: events.put((origin, content))


def _thread(worker: Worker) -> ThreadPoolExecutor | None:
    return ThreadPoolExecutor(1, f"redqueen-worker-{worker.number}") if worker.is_remote else None
