"""Work that goes on beside the writing of texts: in one thread, in chunks of a fixed size, with results in the order of the items.

What comes of an item depends on the item alone, so it does not matter when it is worked on, or with which others.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

CHUNK = 64
Item = TypeVar("Item")
Result = TypeVar("Result")


class Overlap(Generic[Item, Result]):
    """One round of work. Add items while they come, then ask for the results."""

    def __init__(self, thread: ThreadPoolExecutor, work: Callable[[list[Item]], Sequence[Result]]) -> None:
        self.thread, self.work = thread, work
        self.waiting: list[tuple[int, Item]] = []
        self.under_way: list[tuple[list[int], Future[Sequence[Result]]]] = []

    def add(self, number: int, item: Item) -> None:
        self.waiting.append((number, item))
        if len(self.waiting) >= CHUNK:
            self._send()

    def results(self) -> tuple[list[Result], float]:
        """By number, from 0; and the seconds that were spent waiting for them."""
        started = time.monotonic()
        if self.waiting:
            self._send()
        found: dict[int, Result] = {}
        for numbers, future in self.under_way:
            found.update(zip(numbers, future.result(), strict=True))
        return [found[number] for number in range(len(found))], time.monotonic() - started

    def _send(self) -> None:
        numbers, items = [number for number, _ in self.waiting], [item for _, item in self.waiting]
        self.under_way.append((numbers, self.thread.submit(self.work, items)))
        self.waiting = []
