"""Work that goes on beside the writing of texts: in one thread, on all that has come in the meantime, with results in the order of the items.

What comes of an item depends on the item alone, so it does not matter when it is worked on, or with which others. Where texts are written on the
CPU there is no thread: the writing has every core, and pauses for the work.
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
    """Does what it is given before it returns. Work beside torch's threads costs more than its own time: they wait for each other many times a
    step, so that a core that is taken from one of them is taken from all."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **more))
        except Exception as error:  # noqa: BLE001  a thread would keep it for whoever asks, too
            done.set_exception(error)
        return done


def beside(device: str) -> Executor:
    """For work beside a model on this device."""
    return AtOnce() if device == "cpu" else ThreadPoolExecutor(1, "beside")


class Overlap(Generic[Item, Result]):
    """One round of work. Add items while they come, then ask for the results."""

    def __init__(self, thread: Executor, work: Callable[[list[Item]], Sequence[Result]]) -> None:
        self.thread, self.work = thread, work
        self.waiting: deque[tuple[int, Item]] = deque()
        self.under_way: Future[None] | None = None
        self.found: dict[int, Result] = {}
        self.waited_s = 0.0

    def add(self, some: Iterable[tuple[int, Item]]) -> None:
        """Items with their numbers."""
        self.waiting.extend(some)
        if self.under_way is None or (self.under_way.done() and self.under_way.exception() is None):
            with self._waits():
                self.under_way = self.thread.submit(self._work)

    def results(self) -> tuple[list[Result], float]:
        """By number, from 0; and the seconds that the writing and then this have waited for them."""
        with self._waits():
            if self.under_way is not None:
                self.under_way.result()
                self.thread.submit(self._work).result()  # what has come just when it was done
        return [self.found[number] for number in range(len(self.found))], self.waited_s

    @contextmanager
    def _waits(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.waited_s += time.monotonic() - started

    def _work(self) -> None:
        """A slow sandbox is given few large chunks, a fast one many small ones."""
        while self.waiting:
            some = [self.waiting.popleft() for _ in range(len(self.waiting))]
            results = self.work([item for _, item in some])
            self.found.update(zip((number for number, _ in some), results, strict=True))
