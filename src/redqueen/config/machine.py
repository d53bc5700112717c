"""What this machine has, and how many of something it could ever use."""

import os
from pathlib import Path

from redqueen.errors import ConfigError, plural

_MOST_PER_CORE = 64
"""Far more than is of use, so that a run of a large machine goes on on a small one."""


def machine_memory() -> int:
    """Bytes that this machine, or the container, has."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            memory = min(memory, int(Path("/sys/fs/cgroup", name).read_text()))
        except (OSError, ValueError):  # no such group, or no limit
            continue
    return memory


def check_cores(setting: str, number: int) -> int:
    """The number, if the cores of this machine could serve so many threads or processes."""
    cores = os.cpu_count() or 1
    if number > _MOST_PER_CORE * cores:
        raise ConfigError(
            f"{setting}={number}: this machine has {plural(cores, 'core')}, and more than "
            f"{_MOST_PER_CORE * cores} would only wait for each other; 0 is as many as are of use"
        )
    return number
