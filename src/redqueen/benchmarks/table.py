"""The benchmarks by name, and their groups."""

from collections.abc import Collection, Sequence

from redqueen.benchmarks.benchmark import Benchmark
from redqueen.benchmarks.cruxeval import CruxEval
from redqueen.benchmarks.humaneval import HumanEval
from redqueen.benchmarks.livecodebench import LiveCodeBench
from redqueen.benchmarks.maths.suite import MATHS
from redqueen.benchmarks.mbpp.suite import Mbpp, MbppPlus
from redqueen.errors import ConfigError, unknown

CODE: tuple[Benchmark, ...] = (
    CruxEval("i"),
    CruxEval("o"),
    HumanEval(),
    HumanEval(plus=True),
    Mbpp(),
    MbppPlus(),
    LiveCodeBench(),
)
BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in (*CODE, *MATHS)}
GROUPS: dict[str, tuple[str, ...]] = {
    "code": tuple(benchmark.name for benchmark in CODE),
    "math": tuple(benchmark.name for benchmark in MATHS),
    "all": tuple(BENCHMARKS),
}


def expand_groups(names: Sequence[str], known: Collection[str] = tuple(BENCHMARKS)) -> list[str]:
    """Names with groups expanded, each once."""
    expanded: dict[str, None] = {}
    for name in names:
        if name not in GROUPS and name not in known:
            raise ConfigError(unknown("suite", name, [*GROUPS, *known]))
        expanded |= dict.fromkeys(GROUPS.get(name, (name,)))
    return list(expanded)
