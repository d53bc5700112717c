"""The benchmark suites by name, and their groups."""

from collections.abc import Sequence

from redqueen.benchmarks.cruxeval import CruxEval
from redqueen.benchmarks.humaneval import HumanEval, HumanEvalPlus
from redqueen.benchmarks.livecodebench import LiveCodeBench
from redqueen.benchmarks.maths.suite import MATHS
from redqueen.benchmarks.mbpp import Mbpp, MbppPlus
from redqueen.benchmarks.suite import Benchmark
from redqueen.errors import ConfigError, unknown

CODE: tuple[Benchmark, ...] = (
    CruxEval("i"),
    CruxEval("o"),
    HumanEval(),
    HumanEvalPlus(),
    Mbpp(),
    MbppPlus(),
    LiveCodeBench(),
)
BENCHMARKS: dict[str, Benchmark] = {suite.name: suite for suite in (*CODE, *MATHS)}
GROUPS: dict[str, tuple[str, ...]] = {
    "code": tuple(suite.name for suite in CODE),
    "math": tuple(suite.name for suite in MATHS),
    "all": tuple(BENCHMARKS),
}


def expand(names: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    """Names of suites, groups opened, each once; `others` are suites that are no benchmarks."""
    found: dict[str, None] = {}
    for name in names:
        if name not in GROUPS and name not in BENCHMARKS and name not in others:
            raise ConfigError(unknown("suite", name, [*others, *GROUPS, *BENCHMARKS]))
        found |= dict.fromkeys(GROUPS.get(name, (name,)))
    return list(found)
