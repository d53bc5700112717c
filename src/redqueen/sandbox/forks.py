"""Graders that others wrote, on text that models wrote: a process behind the walls of the sandbox
compares in forks, each with a limit on CPU time and memory. A fork may end by these, and harms
nothing else."""

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from typing import Any

from redqueen.sandbox import lockdown

Walls = dict[str, str]


class Channel:
    """JSON objects, one a line, from and to whoever has started this process.

    On descriptors that forks close. The standard ones lead nowhere from then on: what hostile text
    makes a grader print is no verdict, and what it reads is no request."""

    def __init__(self) -> None:
        self._requests, self._replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        os.close(null)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self._requests:
            yield json.loads(line)

    def send(self, message: dict[str, Any]) -> None:
        self._replies.write(json.dumps(message) + "\n")
        self._replies.flush()

    def hang_up(self) -> None:
        """In a fork."""
        os.close(self._requests.fileno())
        os.close(self._replies.fileno())


def lock_down(without: set[str], memory_bytes: int) -> tuple[Walls, lockdown.SeccompFilter | None]:
    """Build the walls of the sandbox around this process: for each `up`, or why it is down. The
    filter, where there can be one, is installed by every fork."""
    walls: Walls = {}

    def build(name: str, wall: Callable[[], object]) -> None:
        try:
            if name in without:
                raise OSError("switched off")
            wall()
            walls[name] = "up"
        except (OSError, KeyError, AttributeError) as error:
            walls[name] = f"down: {error}"

    filters: list[lockdown.SeccompFilter] = []
    build("namespaces", lockdown.new_namespaces)
    if walls["namespaces"] == "up":
        build("empty_root", lockdown.empty_root)
    continue_in_child()
    build("privileges", lockdown.drop_privileges)
    build("no_new_privileges", lockdown.no_new_privileges)
    build("landlock", lockdown.landlock)
    build("not_dumpable", lockdown.not_dumpable)
    build("die_with_parent", lockdown.die_with_parent)
    lockdown.limit(resource.RLIMIT_CORE, 0)
    lockdown.limit(resource.RLIMIT_FSIZE, 0)
    lockdown.limit(resource.RLIMIT_NOFILE, 24)
    lockdown.limit(resource.RLIMIT_AS, memory_bytes)
    build("seccomp", lambda: filters.append(try_filter()))
    return walls, filters[0] if filters else None


def continue_in_child() -> None:
    """The child is process 1 of the new pid namespace, if there is one."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(0)


def try_filter() -> lockdown.SeccompFilter:
    seccomp = lockdown.SeccompFilter()
    if in_fork(1.0, seccomp, lambda: True) is not True:
        raise OSError("the filter cannot be installed")
    return seccomp


def in_fork(
    cpu_s: float,
    seccomp: lockdown.SeccompFilter | None,
    compare: Callable[[], bool],
    channel: Channel | None = None,
) -> bool | str:
    """What it returns, or which limit it has met: `timeout`, `memory`."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if channel is not None:
                channel.hang_up()
            lockdown.die_with_parent()
            signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its default action is to terminate
            if seccomp is not None:
                seccomp.install()
            os.write(write_end, b"yes" if compare() else b"no")
        except MemoryError:
            os.write(write_end, b"memory")
        except Exception:  # noqa: BLE001 - hostile text can make a grader raise anything
            os.write(write_end, b"no")
        finally:
            os._exit(0)
    os.close(write_end)
    said = os.read(read_end, 16)
    os.close(read_end)
    os.waitpid(pid, 0)
    if said in (b"yes", b"no"):
        return said == b"yes"
    return "memory" if said else "timeout"
