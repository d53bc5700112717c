"""A run that is measured need not be made by whoever measures it: not all of its settings count."""

from typing import Any


def untrusted_overrides(unsafe: bool) -> dict[str, Any]:
    """What takes the place of the run's own words about the sandbox's walls, and about clusters to
    join."""
    return {
        "sandbox": {"unsafe": unsafe, "without": (), "address": "local"},
        "engine": {"address": "local"},
    }
