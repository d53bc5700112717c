"""reasoning-gym: a hundred procedural data sets as fixed problems, graded by their own scorers.

    fixed.source = "reasoning-gym"                                     all of them
    fixed.source = "redqueen.tasks.gym:chain_sum+leg_counting"         these

The package is optional (`pip install redqueen[reasoning-gym]`), and imported in a process of its
own.
"""

from typing import Any

from redqueen.tasks.gym.entries import Gym, entries_of

__all__ = ["KINDS", "SOURCES", "entries_of"]

KINDS = {"gym": Gym()}
SOURCES = {"reasoning-gym": entries_of()}


def __getattr__(name: str) -> Any:
    """A source of some data sets, named with `+` between them."""
    if name.startswith("_"):
        raise AttributeError(name)
    return entries_of(*name.split("+"))
