"""Settings of the sandbox."""

import os
from typing import Annotated, Literal

from pydantic import Field

from redqueen.config.machine import check_cores, machine_memory
from redqueen.config.registry import name_from
from redqueen.config.section import Section

Wall = Literal["namespaces", "landlock", "frozen_clock"]


class SandboxConfig(Section):
    type: Annotated[str, name_from("sandbox", "auto")] = "auto"
    """pool: driven by the trainer's process · remote: driven by processes of its own · ray: pools
    on the machines of a Ray cluster · auto: remote beside a GPU, else pool · or a class of your own
    by import path, `package.module:Class`."""
    workers: int = Field(default=0, ge=0, le=65_536)
    """Programs that run at a time; 0: one for each core this process may use, with `ray` all cores
    of the cluster that are free."""
    cores: int = Field(default=4, ge=1, le=4096)
    """Of each pool of `ray`: programs that run in it at a time."""
    address: str = "local"
    """Of the Ray cluster of `ray`, as `engine.address`. An engine on Ray has joined one already."""
    memory_mb: int = Field(default=0, ge=0)
    """Memory for all programs that run at a time, in MiB; fewer run where their limits add up to
    more. 0: three quarters of what the machine, or the container, has."""
    unsafe: bool = False
    """Run without the walls that cannot be built on this machine. Hostile programs may then harm
    it; every run says so."""
    without: tuple[Wall, ...] = ()
    """Walls to leave down although they could be built: namespaces, landlock, frozen_clock. For
    tests."""

    def worker_count(self) -> int:
        """On this machine."""
        return check_cores("sandbox.workers", self.workers) or len(
            os.sched_getaffinity(0)
            if hasattr(os, "sched_getaffinity")
            else range(os.cpu_count() or 1)
        )

    def total_memory_mb(self) -> int:
        if self.memory_mb:
            return self.memory_mb
        return machine_memory() * 3 // 4 >> 20
