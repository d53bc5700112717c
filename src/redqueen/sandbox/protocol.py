"""The sandbox port: what goes in (`Job`), what comes out (`Outcome`), and what runs it (`Sandbox`).

Standard library only: zygotes import this module too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from redqueen.sandbox.inspection.complexity import Complexity

Kind = Literal[
    "value", "error", "timeout", "memory", "unstable", "unsupported", "rejected", "crashed"
]
"""value: canonical text · error: an exception · timeout, memory: a limit was reached · unstable:
two processes disagreed · unsupported: the result is not a literal · rejected: failed a static
check before it ran · crashed: killed by a signal."""

MAX_SOURCE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one job. The limit that counts is CPU time, because on a loaded machine a wall
    limit would kill honest programs. The wall limit is 10x, as a backstop."""

    cpu_s: float = 1.0
    memory_mb: int = 256
    output_kb: int = 64
    """The canonical text of one value, or the standard output of one script, in KiB. Above 64,
    values are not checked: a text is what the child wrote, and hostile."""

    def __post_init__(self) -> None:
        if not 0 < self.cpu_s <= 3600 or self.memory_mb < 16 or self.output_kb <= 0:
            raise ValueError(
                "limits must satisfy 0 < cpu_s <= 3600, memory_mb >= 16 and output_kb greater than "
                f"0; got {self}"
            )

    @property
    def wall_s(self) -> float:
        return 10 * self.cpu_s


@dataclass(frozen=True, slots=True)
class Job:
    """One program and the inputs to run it on."""

    program: str
    """Its source."""
    inputs: tuple[str, ...] = ("",)
    """The arguments of each call as they stand between the brackets, or the standard input of each
    run."""
    mode: Literal["call", "script", "tests"] = "call"
    """call: `entry` is called with the arguments of each input, each time in a fresh namespace, all
    in one process. script: the program runs once per input, each time in a new process, with the
    input as standard input; the value is its standard output. tests: `tests` run in a second
    process and reach the program only through `candidate(...)`, by literals: the program never
    shares memory with the expected answers."""
    entry: str = "f"
    """The function that is called."""
    tests: str = ""
    """Source of the tests, in the mode `tests`."""
    input_as: Literal["literal", "expression"] = "literal"
    """expression: inputs are evaluated inside the child; for benchmark data only."""
    limits: Limits = Limits()
    """On CPU time, memory and output."""
    stable: bool = False
    """Run in three processes that differ in all that a result must not depend on (see
    `replicas.py`), in twelve where the program touches hashes, addresses or machine code, and
    compare the results."""
    allowed_modules: frozenset[str] | None = None
    """If set, the program is inspected before it runs, and rejected if it fails the static checks
    with these modules."""
    count_steps: bool = False
    """Count the lines executed: `Outcome.steps`."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError(
                "a job needs an input to run on; the empty text calls without arguments"
            )


@dataclass(frozen=True, slots=True)
class Result:
    """The result for one input: the canonical text of a value, or what went wrong."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the child read from the source before running it."""

    canonical: str
    complexity: Complexity


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job. Every job has one."""

    kind: Kind
    """`value` if every input gave a value, `unstable` if one was, else the kind of the first result
    that is not a value."""
    results: tuple[Result, ...]
    """One per input. If the run was killed (timeout, crashed), all inputs share that result."""
    detail: str = ""
    """What went wrong, in words."""
    cpu_s: float = 0.0
    """CPU seconds of all runs together."""
    inspection: Inspection | None = None
    """Canonical form and complexity of the program, where it was inspected."""
    steps: int | None = None
    """Lines executed in `entry` and below, over all inputs; capped."""

    @property
    def values(self) -> tuple[str, ...]:
        """The canonical texts, if every input gave one."""
        assert self.kind == "value", self.kind
        return tuple(result.text for result in self.results)


class Sandbox(Protocol):
    """Runs jobs. Opened once for a run, closed at its end; a context manager."""

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """One outcome for each job, in order."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...
