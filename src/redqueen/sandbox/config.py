"""The settings of the sandbox."""

import os
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Wall = Literal["namespaces", "landlock"]


class SandboxConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    lanes: int = Field(default=0, ge=0)
    """Programs in work at a time; 0 means one for each core this process may use."""
    memory_mb: int = Field(default=256, gt=0)
    """Memory a program may take beyond the interpreter's own."""
    output_kb: int = Field(default=64, gt=0)
    """Longest canonical text of a result."""
    unsafe: bool = False
    """Run without the walls that this machine cannot build. Hostile programs may then harm it; shown on every run."""
    without: tuple[Wall, ...] = ()
    """Walls to leave down although they could be built; for tests."""

    def lane_count(self) -> int:
        return self.lanes or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
