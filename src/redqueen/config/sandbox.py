"""Settings of the sandbox."""

import os
from typing import Annotated, Literal

from pydantic import Field

from redqueen.config.registry import name_from
from redqueen.config.section import Section

Wall = Literal["namespaces", "landlock"]


class SandboxConfig(Section):
    type: Annotated[str, name_from("sandbox", "auto")] = "auto"
    """pool: driven by the trainer's process · remote: driven by processes of its own · auto: remote
    beside a GPU, else pool · or a class of your own by import path, `package.module:Class`."""
    workers: int = Field(default=0, ge=0)
    """Programs that run at a time; 0: one for each core this process may use."""
    unsafe: bool = False
    """Run without the walls that cannot be built on this machine. Hostile programs may then harm
    it; every run says so."""
    without: tuple[Wall, ...] = ()
    """Walls to leave down although they could be built: namespaces, landlock. For tests."""

    def worker_count(self) -> int:
        return self.workers or len(
            os.sched_getaffinity(0)
            if hasattr(os, "sched_getaffinity")
            else range(os.cpu_count() or 1)
        )
