"""The settings of the sandbox."""

import os
from typing import Literal

from pydantic import Field

from redqueen.config.section import Section

Wall = Literal["namespaces", "landlock"]


class SandboxConfig(Section):
    workers: int = Field(default=0, ge=0)
    """Programs in work at a time; 0 means one for each core this process may use."""
    unsafe: bool = False
    """Run without the walls that this machine cannot build. Hostile programs may then harm it;
    shown on every run."""
    without: tuple[Wall, ...] = ()
    """Walls to leave down although they could be built: namespaces, landlock. For tests."""

    def worker_count(self) -> int:
        return self.workers or len(
            os.sched_getaffinity(0)
            if hasattr(os, "sched_getaffinity")
            else range(os.cpu_count() or 1)
        )
