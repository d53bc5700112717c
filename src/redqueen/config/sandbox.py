"""Settings of the sandbox."""

import os
from typing import Literal

from pydantic import Field, field_validator

from redqueen.config.registry import table
from redqueen.config.section import Section
from redqueen.errors import unknown

Wall = Literal["namespaces", "landlock"]


class SandboxConfig(Section):
    type: str = "auto"
    """pool: driven by the trainer's process · remote: driven by processes of its own · auto: remote
    beside a GPU, else pool · or a class of your own by import path, `package.module:Class`."""
    workers: int = Field(default=0, ge=0)
    """Programs that run at a time; 0: one for each core this process may use."""
    unsafe: bool = False
    """Run without the walls that cannot be built on this machine. Hostile programs may then harm
    it; every run says so."""
    without: tuple[Wall, ...] = ()
    """Walls to leave down although they could be built: namespaces, landlock. For tests."""

    @field_validator("type")
    @classmethod
    def _check_type(cls, name: str) -> str:
        names = ("auto", *table("sandbox"))
        if ":" not in name and name not in names:
            raise ValueError(unknown("sandbox", name, names))
        return name

    def worker_count(self) -> int:
        return self.workers or len(
            os.sched_getaffinity(0)
            if hasattr(os, "sched_getaffinity")
            else range(os.cpu_count() or 1)
        )
