"""The open table of suites: Pawn's held-out problems, every benchmark, or one of your own by import
path."""

from collections.abc import Sequence

from redqueen.benchmarks.suite import Suite
from redqueen.benchmarks.table import BENCHMARKS, expand_groups
from redqueen.config.registry import Registry
from redqueen.evaluate.heldout import HeldOut

SUITES: Registry[Suite] = Registry(
    "suite",
    {
        "heldout": HeldOut("heldout"),
        "heldout-quick": HeldOut("heldout-quick"),
        **BENCHMARKS,
    },
)


def load_suite(name: str) -> Suite:
    """A suite by its name, or by the import path of an instance or a class without arguments."""
    suite = SUITES[name]
    return suite() if isinstance(suite, type) else suite


def expand_names(names: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    """Names of suites with groups expanded, each once. `others` are allowed besides suites."""
    paths = [name for name in names if ":" in name]
    return expand_groups(names, [*others, *SUITES, *paths])
