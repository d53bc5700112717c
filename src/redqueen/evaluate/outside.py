"""A run that somebody measures, who need not be whoever made it."""

from typing import Any


def outside_changes(unsafe: bool) -> dict[str, Any]:
    """Settings of a run that is measured, by whoever measures it: what its maker says of walls and
    of clusters to join does not count."""
    return {
        "sandbox": {"unsafe": unsafe, "without": (), "address": "local"},
        "engine": {"address": "local"},
    }
