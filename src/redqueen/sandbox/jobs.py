"""What goes into the sandbox and what comes out: Job, Outcome, and the Sandbox protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from redqueen.sandbox.inspection.complexity import Complexity

Kind = Literal[
    "value", "error", "timeout", "memory", "unstable", "unsupported", "rejected", "crashed"
]
"""value: canonical text · error: an exception · timeout, memory: a limit was met · unstable: three
processes did not agree · unsupported: the result has no literal · rejected: a static check, before
the run · crashed: ended by a signal."""

MAX_SOURCE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one job. CPU time, not wall time: on a loaded machine a wall limit ends honest
    programs. Wall is 10x, as a backstop."""

    cpu_s: float = 1.0
    memory_mb: int = 256
    output_kb: int = 64
    """The canonical text of one value, or the standard output of one script, in KiB."""

    def __post_init__(self) -> None:
        if not 0 < self.cpu_s <= 3600 or self.memory_mb < 16 or self.output_kb <= 0:
            raise ValueError(
                f"CPU time must be greater than 0 and at most an hour, memory 16 MiB or more, output greater than 0; got {self}"
            )

    @property
    def wall_s(self) -> float:
        return 10 * self.cpu_s


@dataclass(frozen=True, slots=True)
class Job:
    """One program and the inputs to run it on."""

    program: str
    inputs: tuple[str, ...] = ("",)
    mode: Literal["call", "script", "tests"] = "call"
    """call: `entry` is called with each input's arguments, each in a fresh namespace, all in one
    process. script: the program runs once for each input, in a process of its own, with the input
    as standard input; the value is its output. tests: `tests` run in a second process and reach the
    program only through `candidate(...)`, by literals: the program never shares memory with the
    expected answers."""
    entry: str = "f"
    tests: str = ""
    input_as: Literal["literal", "expression"] = "literal"
    """expression: inputs are evaluated inside the child; for benchmark data only."""
    limits: Limits = Limits()
    stable: bool = False
    """Run in three processes that differ in hash seed, addresses, chance, clock, memory limit and
    order of inputs, and compare."""
    allowed_modules: frozenset[str] | None = None
    """Given: the program is inspected before it runs, and turned away if it fails the static checks
    with these modules."""
    count_steps: bool = False

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError(
                "a job needs an input to run on; the empty text calls without arguments"
            )


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one input: the canonical text of a value, or what went wrong."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the child saw in the source before it ran it."""

    canonical: str
    complexity: Complexity


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job: one for every job, always."""

    kind: Kind
    """`value` if every input gave a value, else the kind of the first result that is none."""
    results: tuple[Result, ...]
    """One for each input; all inputs share the fate of a run that was ended (timeout, crashed)."""
    detail: str = ""
    cpu_s: float = 0.0
    inspection: Inspection | None = None
    steps: int | None = None
    """Lines executed in `entry` and below, over all inputs; capped."""

    @property
    def values(self) -> tuple[str, ...]:
        """The canonical texts, when every input gave one."""
        assert self.kind == "value", self.kind
        return tuple(result.text for result in self.results)


class Sandbox(Protocol):
    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """One outcome for each job, in order."""
        ...
