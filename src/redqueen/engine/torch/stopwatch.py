"""Seconds that a part of a call takes, without waiting for the device."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Stopwatch:
    """On a GPU, work is only handed over when a call returns: there, events in its own stream tell
    when it began and ended."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self._seconds = 0.0
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        if self.on_gpu:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            yield
            end.record()
            self._events.append((begin, end))
        else:
            started = time.monotonic()
            yield
            self._seconds += time.monotonic() - started

    def seconds(self) -> float:
        """All together. Waits for the device where it has not come so far."""
        for begin, end in self._events:
            end.synchronize()
            self._seconds += begin.elapsed_time(end) / 1000
        self._events.clear()
        return self._seconds
