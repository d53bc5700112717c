"""Sampling and checking at the same time: completions go to the sandbox while others are still
being decoded.

What comes of a completion depends on it alone, so it does not matter when it is checked, or with
which others: records are the same either way.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from redqueen.engine.protocol import Engine
from redqueen.engine.text_sampler import OnText, TextCompletion, TextRequest, TextSampler
from redqueen.sandbox import Sandbox
from redqueen.tasks import TaskKind
from redqueen.tasks.prompts import PromptFormat

T = TypeVar("T")
Result = TypeVar("Result")

_SWITCH_S = 0.0005
"""How long a thread keeps the interpreter while another waits for it. What drives a GPU lets go of
it at every call: with Python's 5 ms and texts being graded in a second thread, a call of half a
millisecond takes twelve; with this, it takes one."""


class Inline(Executor):
    """Runs a task before `submit` returns. On a CPU a background thread would take a core from
    torch's intra-op pool, and every op waits for its slowest thread."""

    def submit(self, task: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(task(*args, **more))
        except Exception as error:  # noqa: BLE001  a thread would keep it for whoever asks, too
            done.set_exception(error)
        return done


@contextmanager
def background_executor(*, on_gpu: bool) -> Iterator[Executor]:
    """For checks while sampling: a thread beside a GPU, inline on a CPU."""
    if not on_gpu:
        yield Inline()
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_S))
    executor = ThreadPoolExecutor(1, "redqueen-checks")
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
        sys.setswitchinterval(before)


@dataclass(slots=True)
class Ports:
    """What the stages of a step work with, the same for all worlds of a run."""

    sampler: TextSampler
    engine: Engine
    sandbox: Sandbox
    kinds: dict[str, TaskKind]
    prompt_format: PromptFormat
    background: Executor = field(default_factory=Inline)
    on_progress: Callable[[str, int, int], None] = lambda stage, done, total: None
    """Told the stage, and how many of how many completions are there."""
    timings: dict[str, list[float]] = field(default_factory=dict)
    """By stage: seconds, and of these, waiting for the sandbox."""

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.add_time(stage, time.monotonic() - started)

    def add_time(self, stage: str, seconds: float, waited: float = 0.0) -> None:
        times = self.timings.setdefault(stage, [0.0, 0.0])
        times[0] += seconds
        times[1] += waited

    def sample(
        self, stage: str, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
    ) -> None:
        """Sample, and hand over completions as soon as they are finished."""
        if not requests:
            return
        count = 0

        def receive(completions: Sequence[TextCompletion]) -> None:
            nonlocal count
            on_finish(completions)
            count += len(completions)
            self.on_progress(stage, count, len(requests))

        self.on_progress(stage, 0, len(requests))
        self.sampler.sample(requests, temperature, receive)


class Check(Generic[T]):
    """Checks items in the background, in batches of all that have come in the meantime: a slow
    sandbox is given few large batches, a fast one many small ones."""

    def __init__(self, background: Executor, check: Callable[[list[T]], None]) -> None:
        self._background, self._check = background, check
        self._waiting: deque[T] = deque()
        self._running: Future[None] | None = None
        self.blocked_s = 0.0
        """Seconds that `add` and `finish` have waited."""

    def add(self, items: Iterable[T]) -> None:
        self._waiting.extend(items)
        running = self._running
        if running is None or (running.done() and running.exception() is None):
            with self._blocked():
                self._running = self._background.submit(self._work)

    def raise_failure(self) -> None:
        """Raise what a check has raised, before more is sampled in vain."""
        if self._running is not None and self._running.done():
            self._running.result()

    def finish(self) -> None:
        """Wait until everything is checked; raises what a check has raised."""
        with self._blocked():
            if self._running is not None:
                self._running.result()
                # what has come just when it was done
                self._background.submit(self._work).result()

    def _work(self) -> None:
        while self._waiting:
            self._check([self._waiting.popleft() for _ in range(len(self._waiting))])

    @contextmanager
    def _blocked(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.blocked_s += time.monotonic() - started


def check_once(
    items: Sequence[T],
    key: Callable[[T], Hashable],
    check: Callable[[list[T]], Sequence[Result]],
    known: dict[Hashable, Result],
) -> list[Result]:
    """The result of each item, in order. Items with the same key are checked once; `known` keeps
    the results from one batch to the next."""
    new = {key(item): item for item in reversed(items) if key(item) not in known}
    keys = [name for name in dict.fromkeys(map(key, items)) if name in new]
    known.update(zip(keys, check([new[name] for name in keys]), strict=True))
    return [known[key(item)] for item in items]
