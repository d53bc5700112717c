"""The TaskKind protocol: all that the loop knows of a sort of problem. A new domain is a class that
satisfies it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from redqueen.config.stages import VerifyConfig
from redqueen.records import Problem
from redqueen.sandbox import Job, Limits, Outcome

Block = tuple[str, str]
"""A labelled text: ("program", "def f(x): ...")."""


class Malformed(ValueError):
    """A model's text does not have the form that was asked for. The message says why, in a few
    words."""


@dataclass(frozen=True, slots=True)
class FewShot:
    """A request of the same sort and a reply to it."""

    thought: str
    reply: tuple[Block, ...]
    given: tuple[Block, ...] = ()
    examples: tuple[tuple[Block, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked, free of any typography: a prompt prompt_format turns it into text."""

    kind: str
    role: str
    """teacher or student."""
    instruction: str
    """For packs that use words."""
    examples: tuple[tuple[Block, ...], ...]
    """Earlier problems, as inspiration."""
    given: tuple[Block, ...]
    wanted: tuple[str, ...]
    """Labels of the blocks to write, in order."""
    worked: FewShot | None = None
    """An example for packs that show one."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposal that could be read, not yet verified."""

    program: str
    inputs: tuple[str, ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class RunRules:
    """Under which rules a proposal is verified and an answer graded."""

    proposal: Limits
    answer: Limits
    """Wider than a proposal's, so that what passed once passes again on a busier machine."""
    allowed_modules: frozenset[str]

    @classmethod
    def of(cls, config: VerifyConfig) -> Self:
        return cls(
            Limits(config.cpu_s / 4, config.memory_mb),
            Limits(config.cpu_s, config.memory_mb),
            config.allowed_modules,
        )


class TaskKind(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def reference_count(self) -> int:
        """How many archived problems a proposal prompt shows."""
        ...

    @property
    def reference_kinds(self) -> tuple[str, ...]:
        """Kinds, by name, whose archived problems a proposal prompt shows."""
        ...

    @property
    def proposal_blocks(self) -> tuple[str, ...]:
        """Labels of the blocks a teacher writes, in order."""
        ...

    @property
    def answer_blocks(self) -> tuple[str, ...]:
        """Labels of the blocks a student writes, in order."""
        ...

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        """What a teacher is asked."""
        ...

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Draft:
        """The draft in a teacher's blocks; raises Malformed."""
        ...

    def verification(self, draft: Draft, rules: RunRules) -> Job:
        """What must be executed to verify a draft, which may come from a file; raises Malformed."""
        ...

    def ask_answer(self, problem: Problem) -> Request:
        """What a student is asked."""
        ...

    def read_answer(self, blocks: Sequence[Block]) -> str:
        """The answer in a student's blocks, in normal spelling; raises Malformed."""
        ...

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        """What must be executed to grade an answer; None where comparing texts is enough."""
        ...

    def is_right(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        """The verdict, from the outcome of the grading job if there was one."""
        ...


def take(blocks: Sequence[Block], label: str) -> str:
    """The one block with this label."""
    found = [text for name, text in blocks if name == label]
    if len(found) != 1:
        raise Malformed(f"{len(found)} blocks labelled {label}, expected one")
    return found[0]
