"""Fixtures: one sandbox for all tests of a process, and canaries that hostile programs must not reach."""

from collections.abc import Iterator

import pytest

from redqueen.sandbox.config import SandboxConfig
from redqueen.sandbox.pool import SandboxPool


@pytest.fixture(scope="session")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(SandboxConfig(lanes=2)) as pool:
        yield pool
