"""Work that goes on beside the writing of texts: in one thread, on all that has come in the meantime, with results in the order of the items.

What comes of an item depends on the item alone, so it does not matter when it is worked on, or with which others.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Overlap(Generic[Item, Result]):
    """One round of work. Add items while they come, then ask for the results."""

    def __init__(self, thread: ThreadPoolExecutor, work: Callable[[list[Item]], Sequence[Result]]) -> None:
        self.thread, self.work = thread, work
        self.waiting: deque[tuple[int, Item]] = deque()
        self.under_way: Future[None] | None = None
        self.found: dict[int, Result] = {}

    def add(self, number: int, item: Item) -> None:
        self.waiting.append((number, item))
        if self.under_way is None or (self.under_way.done() and self.under_way.exception() is None):
            self.under_way = self.thread.submit(self._work)

    def results(self) -> tuple[list[Result], float]:
        """By number, from 0; and the seconds that were spent waiting for them."""
        started = time.monotonic()
        if self.under_way is not None:
            self.under_way.result()
            self.thread.submit(self._work).result()  # what has come just when it was done
        return [self.found[number] for number in range(len(self.found))], time.monotonic() - started

    def _work(self) -> None:
        """A slow sandbox is given few large chunks, a fast one many small ones."""
        while self.waiting:
            some = [self.waiting.popleft() for _ in range(len(self.waiting))]
            results = self.work([item for _, item in some])
            self.found.update(zip((number for number, _ in some), results, strict=True))
