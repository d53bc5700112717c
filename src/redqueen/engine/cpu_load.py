"""How busy other programs keep the CPU, as Linux tells. Elsewhere nothing is known: no core is
listed, and nobody has waited."""

import contextlib
import os
import sys
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 100


def own_cores() -> set[int]:
    """The cores that this process may use."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else set()


def idle_seconds(*, niced: bool = False) -> dict[int, float]:
    """By core: how long it has been idle since the machine was started; with `niced`, or had only
    programs with a nice value."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/stat").read_text().splitlines()
        rows = [line.split() for line in lines if line.startswith("cpu") and line[3] != " "]
        return {
            int(name[3:]): (int(idle) + int(io) + niced * int(nice)) / _TICKS
            for name, _, nice, _, idle, io, *_ in rows
        }
    return {}


def spare_seconds() -> dict[int, float]:
    """By core: how long it was idle, or had only programs that give way to this one."""
    return idle_seconds(niced=os.getpriority(os.PRIO_PROCESS, 0) <= 0)


def measure_spare(seconds: float = 0.1) -> dict[int, float]:
    """By core of this process: the share of its time that others leave. The caller sleeps for so
    long."""
    before, started = spare_seconds(), time.monotonic()
    time.sleep(seconds)
    after, elapsed = spare_seconds(), time.monotonic() - started
    return {
        core: min(1.0, (after[core] - before[core]) / elapsed) for core in own_cores() & {*after}
    }


def waited_seconds() -> float:
    """How long threads of this process were ready to run while others had their core, all threads
    together."""
    waited = 0
    for thread in thread_ids():
        with contextlib.suppress(OSError):  # it has ended
            waited += int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1])
    return waited / 1e9


def thread_ids() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(path.name) for path in Path("/proc/self/task").iterdir()]
    return []


def process_seconds(process: int) -> float:
    """CPU seconds of a process, all threads, and of those of its children that have ended."""
    return _read_process(process)[1]


def family_seconds() -> float:
    """CPU seconds of this process and all that come from it, the living and those that ended."""
    found = {
        process: _read_process(process)
        for process in (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    }
    family, before = {os.getpid()}, 0
    while len(family) > before:
        before = len(family)
        family |= {process for process, (parent, _) in found.items() if parent in family}
    return sum(seconds for process, (_, seconds) in found.items() if process in family)


def _read_process(process: int) -> tuple[int, float]:
    """Its parent, and its CPU seconds."""
    with contextlib.suppress(OSError, IndexError):  # it has ended
        # its name, in brackets, may hold anything
        values = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return int(values[1]), sum(map(int, values[11:15])) / _TICKS
    return 0, 0.0


class LoadMeter:
    """How many cores other programs use from now on. Child processes count as others, unless they
    are said to be ours."""

    def __init__(self, *, with_children: bool = False) -> None:
        self._count = family_seconds if with_children else time.process_time
        self._started, self._own = time.monotonic(), self._count()
        self._idle = idle_seconds()

    def others(self) -> float:
        """Their mean until now."""
        elapsed, own = time.monotonic() - self._started, self._count() - self._own
        idle = idle_seconds()
        used = sum(elapsed - (idle[core] - self._idle[core]) for core in own_cores() & {*idle})
        return max(0.0, (used - own) / elapsed)
