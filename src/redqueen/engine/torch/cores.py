"""On which cores torch's threads run while other programs use some of them.

Torch splits every operation among its threads, and whoever is ready first spins until the last one
is. If another program has the core of one of them, all wait for the scheduler, many times in every
decode step: sampling takes ten times as long and more. Fewer threads would help, but where sums are
split decides their last bits, and so the texts. So the number of threads stays, and where cores are
taken, the threads move onto those that are free. There they take turns, and sleep while they wait.
"""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from threading import Event, Thread

import torch

from redqueen.config.machine import check_cores
from redqueen.engine.cpu_load import (
    measure_spare,
    own_cores,
    spare_seconds,
    thread_ids,
    waited_seconds,
)

log = logging.getLogger(__name__)

_INTERVAL_S = 0.5
"""Between two looks at how long threads have waited."""
_WAITED = 0.4
"""Share of the time that threads spend waiting for a core, all together, above which it is faster
to gather them. On two cores, one thread's work for two takes 1.6 times as long."""
_FALSE_ALARM_S = 5.0
"""Until the next look if it was nobody else."""
_SPARE = 0.6
"""Cores that others left idle for this share of the time are free again."""
_PATIENCE_S, _MOST_PATIENCE_S = 2.0, 60.0
"""For how long: twice as long each time that cores are taken again within the longest."""
_CALM_S = 30.0
"""Until it is said that they are: on a busy machine they come and go."""


def set_threads(number: int) -> None:
    """0: as many as torch chooses."""
    if number:
        torch.set_num_threads(check_cores("engine.threads", number))


class Cores:
    """Where torch's threads run: one for the process, as they are."""

    def __init__(self) -> None:
        self._all = own_cores()
        self._gathered: set[int] | None = None
        """None while threads have all cores."""
        self._held = False
        self._since = self._next_look = 0.0
        self._waited, self._spare = 0.0, spare_seconds()
        self._patience, self._spread_at = _PATIENCE_S, 0.0
        self._told = False
        """Whether the log's last word is that cores are taken."""
        self._crowd = _Crowd()

    @property
    def count(self) -> int:
        """Cores that torch's threads run on."""
        return min(torch.get_num_threads(), len(self._gathered or self._all) or 1)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Within: threads run where there is room, and `adapt` looks after it. Outside they may run
        anywhere, so that new processes inherit all cores."""
        if self._held:
            yield
            return
        self._all, self._held = own_cores(), True
        try:
            if self._gathered:
                _move_threads(self._gathered)
            elif self._since:
                self._look_again(_INTERVAL_S)
            else:  # for the first time: threads have not waited yet
                self._make_room(_INTERVAL_S)
            yield
        finally:
            self._held = False
            if self._gathered:
                _move_threads(self._all)

    def adapt(self) -> None:
        """See whether cores were taken or given back. Most calls only look at the clock."""
        now = time.monotonic()
        if not self._held or now < self._next_look:
            return
        elapsed = now - self._since
        if self._gathered is None:
            if waited_seconds() - self._waited > _WAITED * elapsed:
                self._make_room(_FALSE_ALARM_S)
                return
            if self._told and now - self._spread_at > _CALM_S:
                self._told = False
                log.info("the other cores are free again: torch's threads use all of them")
            self._look_again(_INTERVAL_S)
            return
        spare = spare_seconds()
        left = self._all - self._gathered
        if all(spare[core] - self._spare[core] > _SPARE * elapsed for core in left):
            self.spread()
        else:
            self._look_again(self._patience)

    def gather(self, cores: set[int]) -> None:
        """Move torch's threads onto these cores."""
        again = time.monotonic() - self._spread_at < _MOST_PATIENCE_S
        self._patience = min(2 * self._patience, _MOST_PATIENCE_S) if again else _PATIENCE_S
        self._gathered = cores
        self._crowd.gather(len(self._all))
        if self._held:
            _move_threads(cores)
        self._look_again(self._patience)

    def spread(self) -> None:
        """Let torch's threads use all cores again."""
        self._gathered, self._spread_at = None, time.monotonic()
        self._crowd.leave()
        if self._held:
            _move_threads(self._all)
        self._look_again(_INTERVAL_S)

    def _make_room(self, otherwise_s: float) -> None:
        """Gather the threads on as many cores as others leave free. If they use none, look again
        after so many seconds."""
        threads = torch.get_num_threads()
        spare = measure_spare() if threads > 1 else {}
        room = sum(spare.values())
        count = max(1, int(room + 0.75))  # a core is taken if others use most of it
        if count >= min(threads, len(spare)):
            self._look_again(otherwise_s)
            return
        self.gather(set(sorted(spare, key=spare.__getitem__)[-count:]))
        if self._told:
            return
        self._told = True
        log.info(
            "other programs use %.1f of %d cores: until they end, torch's %d threads share %s",
            len(spare) - room,
            len(spare),
            threads,
            "one core" if count == 1 else f"{count} cores",
        )

    def _look_again(self, seconds: float) -> None:
        self._since = time.monotonic()
        self._next_look = max(self._next_look, self._since + seconds)
        self._waited, self._spare = waited_seconds(), spare_seconds()


class _Crowd:
    """Idle OpenMP threads. When a process has more of them than there are cores, GNU's OpenMP lets
    a waiting thread spin for microseconds before it sleeps, and not for milliseconds."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []
        self._end = Event()

    def gather(self, cores: int) -> None:
        pool = torch.get_num_threads()
        if self._threads or pool < 2:
            return
        self._end = Event()
        for _ in range((cores - pool) // (pool - 1) + 1):
            ready = Event()
            self._threads.append(Thread(target=self._idle, args=(ready, pool), daemon=True))
            self._threads[-1].start()
            ready.wait()

    def leave(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _idle(self, ready: Event, pool: int) -> None:
        torch.ones(pool << 16).add_(1)  # large enough for all threads of a pool of its own
        ready.set()
        self._end.wait()


def _move_threads(cores: set[int]) -> None:
    if sys.platform != "linux":
        return
    for thread in thread_ids():
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(thread, cores)


CORES = Cores()
