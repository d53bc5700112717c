"""Work that goes on beside the writing of texts: in one thread, on all that has come in the
meantime, with results in the order of the items.

What comes of an item depends on the item alone, so it does not matter when it is worked on, or with
which others. Where texts are written on the CPU there is no thread: the writing has every core, and
pauses for the work.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class AtOnce(Executor):
    """Does what it is given before it returns. Work beside torch's threads costs more than its own
    time: they wait for each other many times a step, so that a core that is taken from one of them
    is taken from all."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **more))
        except Exception as error:
            done.set_exception(error)
        return done


def beside(device: str) -> Executor:
    """For work beside a model on this device."""
    return AtOnce() if device == "cpu" else ThreadPoolExecutor(1, "beside")


@contextmanager
def waiting(waited: list[float]) -> Iterator[None]:
    """Within, work is waited for: the seconds are added to the list."""
    started = time.monotonic()
    yield
    waited.append(time.monotonic() - started)


class Overlap(Generic[Item, Result]):
    """One round of work. Add items while they come, then ask for the results. What the writing and
    then the asking have waited goes to a list."""

    def __init__(
        self, thread: Executor, work: Callable[[list[Item]], Sequence[Result]], waited: list[float]
    ) -> None:
        self.thread, self.work, self.waited = thread, work, waited
        self.waiting: deque[tuple[int, Item]] = deque()
        self.under_way: Future[None] | None = None
        self.found: dict[int, Result] = {}

    def add(self, some: Iterable[tuple[int, Item]]) -> None:
        """Items with their numbers."""
        self.waiting.extend(some)
        if self.under_way is None or (self.under_way.done() and self.under_way.exception() is None):
            with waiting(self.waited):
                self.under_way = self.thread.submit(self._work)

    def results(self) -> list[Result]:
        """By number, from 0."""
        with waiting(self.waited):
            if self.under_way is not None:
                self.under_way.result()
                self.thread.submit(self._work).result()  # what has come just when it was done
        return [self.found[number] for number in range(len(self.found))]

    def _work(self) -> None:
        """A slow sandbox is given few large chunks, a fast one many small ones."""
        while self.waiting:
            some = [self.waiting.popleft() for _ in range(len(self.waiting))]
            results = self.work([item for _, item in some])
            self.found.update(zip((number for number, _ in some), results, strict=True))
