"""The open table of suites: Pawn's held-out problems, every benchmark, or one of your own: by
import path, a JSONL file of problems or attempts, or what a problem source makes
(`source=NAME`)."""

from collections.abc import Sequence
from pathlib import Path

from redqueen.benchmarks.suite import Suite
from redqueen.benchmarks.table import BENCHMARKS, expand_groups
from redqueen.config.registry import Registry
from redqueen.evaluate.critique import CritiqueFile, HeldOutCritique, holds_attempts
from redqueen.evaluate.generated import PREFIX, Generated
from redqueen.evaluate.heldout import HeldOut, HeldOutPuzzles
from redqueen.evaluate.heldout_critique import HeldOutAttempts, HeldOutLines
from redqueen.evaluate.probes import Shortcuts
from redqueen.evaluate.problem_file import ProblemFile

_FILE = ".jsonl"

SUITES: Registry[Suite] = Registry(
    "suite",
    {
        "heldout": HeldOut(
            "heldout", "2,400 problems of Pawn: 100 of each kind of program and tier, 1 to 8"
        ),
        "heldout-quick": HeldOut("heldout-quick", "200 problems, every twelfth of heldout"),
        "heldout-large": HeldOut(
            "heldout-large", "10,000 problems of tiers 4 to 7, sampled at the first use"
        ),
        "heldout-deduction": HeldOut("heldout-deduction", "1,000 deduction problems, tiers 4 to 7"),
        "heldout-logic": HeldOutPuzzles(),
        "shortcut": Shortcuts(),
        "critique": HeldOutCritique(),
        "heldout-critique": HeldOutAttempts(),
        "heldout-critique-lines": HeldOutLines(),
        **BENCHMARKS,
    },
)


def load_suite(name: str) -> Suite:
    """A suite by its name, by the import path of an instance or a class without arguments, or by
    the file that has its problems."""
    if name.endswith(_FILE):
        path = Path(name).expanduser()
        return CritiqueFile(path) if holds_attempts(path) else ProblemFile(path)
    if name.startswith(PREFIX):
        return Generated(name)
    suite = SUITES[name]
    return suite() if isinstance(suite, type) else suite


def expand_names(names: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    """Names of suites with groups expanded, each once. `others` are allowed besides suites."""
    paths = [
        name for name in names if ":" in name or name.endswith(_FILE) or name.startswith(PREFIX)
    ]
    return expand_groups(names, [*others, *SUITES, *paths])
