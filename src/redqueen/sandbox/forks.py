"""Graders that others wrote, on text that models wrote: a process behind the walls of the sandbox
compares in forks, each with a limit on CPU time and memory. A fork may end by these, and harms
nothing else."""

import os
import resource
import signal
from collections.abc import Callable

from redqueen.sandbox import lockdown

Walls = dict[str, str]


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
    cpu_s: float, seccomp: lockdown.SeccompFilter | None, compare: Callable[[], bool]
) -> bool | str:
    """What it returns, or which limit it has met: `timeout`, `memory`."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
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
