"""What the method knows of a kind of problem: `TaskKind`. A domain is a class that satisfies it.

A problem belongs to its kind. The kind owns the payload, what is verified and how, what is shown to
whom, how an answer is read and graded, and what can be said about a problem: features, structure,
coverage cell. Code is executed in the sandbox only; checks that run nothing a model wrote (a closed
formula, an exact solver) may happen in process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Protocol, Self

from redqueen.config.stages import VerifyConfig
from redqueen.records import Author, Problem, content_key
from redqueen.sandbox import Job, Limits, Outcome
from redqueen.tasks.request import Block, FewShot, Request
from redqueen.tasks.storable import (
    check_storable,
    freeze,
    load_problem,
    payload_fields,
    problem_fields,
)
from redqueen.tasks.surface import describe_surface

__all__ = [
    "Block", "FewShot", "Kind", "Malformed", "Reject", "Request", "RunRules", "TaskKind",
    "Verified", "Void", "load_problem", "payload_fields", "problem_fields", "take",
]  # fmt: skip


class Reject(ValueError):
    """A proposal is not a problem. The reason is one word, to be counted; the detail for people."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail)
        self.reason = reason


class Malformed(Reject):
    """A model's text does not have the form that was asked for: why, in a few words."""

    def __init__(self, detail: str) -> None:
        super().__init__("malformed", detail)


class Void(Exception):
    """A problem is not what was verified: beside an answer, a control that must come out right did
    not. It is taken out for everybody, whatever was answered, and its teacher earns what an invalid
    proposal earns."""


@dataclass(frozen=True, slots=True)
class RunRules:
    """What holds where proposals are verified and where answers are graded."""

    limits: Limits
    allowed_modules: frozenset[str]
    max_program_chars: int
    max_input_chars: int
    max_output_chars: int
    max_message_chars: int

    @classmethod
    def of(cls, config: VerifyConfig) -> Self:
        return cls(
            Limits(config.cpu_s, config.memory_mb),
            config.allowed_modules,
            config.max_program_chars,
            config.max_input_chars,
            config.max_output_chars,
            config.max_message_chars,
        )

    def job(self, program: str, inputs: tuple[str, ...]) -> Job:
        """Of one shape for verification and for grading. A program that could tell them apart could
        have one answer when it is verified and another when students are graded."""
        return Job(
            program,
            inputs,
            limits=self.limits,
            stable=True,
            allowed_modules=self.allowed_modules,
            count_steps=True,
        )


@dataclass(frozen=True, slots=True)
class Verified:
    """What verification establishes about a payload."""

    payload: Any
    gold: tuple[str, ...]
    features: Mapping[str, float]
    identity: tuple[str, ...]
    """Problems of one kind with equal identities are the same problem."""

    def problem(self, kind: str, author: Author | None = None, step: int = 0) -> Problem:
        for name, value in payload_fields(self.payload).items():
            check_storable(value, f"{kind}: the field '{name}' of its payload")
        key = content_key(kind, *self.identity)
        return Problem(key, kind, self.payload, self.gold, self.features, author, step)


class TaskKind(Protocol):
    """`Kind` has defaults for the second half of it."""

    @property
    def name(self) -> str:
        """What it is called in prompts."""
        ...

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

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Any:
        """The payload in a teacher's blocks; raises Malformed."""
        ...

    def verification(self, payload: Any, rules: RunRules) -> Job | None:
        """What must be executed to verify a payload, if anything must. Raises Reject."""
        ...

    def verified(self, payload: Any, outcome: Outcome | None, rules: RunRules) -> Verified:
        """The gold answer and features, from the outcome of the job. Raises Reject."""
        ...

    def ask_answer(self, problem: Problem) -> Request:
        """What a student is asked. Must not show the gold answer."""
        ...

    def read_answer(self, blocks: Sequence[Block]) -> str:
        """The answer in a student's blocks, in normal spelling; raises Malformed."""
        ...

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        """What must be executed to grade an answer; None where nothing must. Where code of a
        teacher runs, a control runs beside the answer: something whose outcome is known."""
        ...

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        """The verdict. Raises Void if the control came out wrong."""
        ...

    def seeds(self) -> Sequence[Any]:
        """A few payloads for archives to begin with."""
        ...

    # what can be said about a problem

    @property
    def summary(self) -> str:
        """What a student has to do, in a few words."""
        ...

    @property
    def derived(self) -> bool:
        """Whether its problems are made from an archived one, so that their features say nothing
        about the teacher."""
        ...

    def show(self, problem: Problem) -> tuple[Block, ...]:
        """All of it in labelled texts, for people: report, export."""
        ...

    def length(self, problem: Problem) -> int:
        """In characters. The longest reference is left out first where a prompt is too long."""
        ...

    def structure(self, problem: Problem) -> str:
        """A hash: equal for problems that differ in values only."""
        ...

    def cell(self, problem: Problem) -> str:
        """Its cell of the coverage map."""
        ...

    def probe(self, problem: Problem) -> Job | None:
        """What to execute to see how the problem behaves; None where nothing is."""
        ...

    def behaviour(self, problem: Problem, outcome: Outcome | None) -> str:
        """A hash: equal for problems that behave alike, however they are written."""
        ...

    def surface(self, problem: Problem) -> Mapping[str, float | str]:
        """What it looks like, for drift monitors: numbers are averaged, texts counted."""
        ...

    def without_evidence(self, problem: Problem, rng: Random) -> Request | None:
        """What a student is asked where the problem is spoilt: whoever is still right guesses. None
        where a problem cannot be spoilt."""
        ...

    def load_payload(self, fields: Mapping[str, Any]) -> Any:
        """The payload from its JSON, which may come from a file; raises ValueError."""
        ...

    # what games, the report and `redqueen explain` ask

    def trace(self, problem: Problem) -> Job | None:
        """What to execute to know the true steps of a solution; None where they are not known."""
        ...

    def first_wrong_line(
        self, problem: Problem, reasoning: str, outcome: Outcome | None
    ) -> int | None:
        """The first line of a student's reasoning that is wrong, counted from 1, by the outcome of
        the trace; None where that is not known, or no line is wrong."""
        ...

    def example(self, role: str) -> FewShot | None:
        """A few-shot example for a role of a game, such as critic."""
        ...


class Kind:
    """Requests, and defaults for what can be said about a problem. `payload` is the dataclass of
    the payload, `system` the system text of its prompts."""

    name: str
    payload: ClassVar[type]
    proposal_blocks: tuple[str, ...]
    answer_blocks: tuple[str, ...]
    system = "You are careful and exact."
    summary = ""
    derived = False
    reference_count = 0
    reference_kinds: tuple[str, ...] = ()

    def request(
        self,
        role: str,
        instruction: str,
        given: tuple[Block, ...] = (),
        examples: tuple[tuple[Block, ...], ...] = (),
        few_shot: FewShot | None = None,
    ) -> Request:
        """A request of this kind to a teacher or a student."""
        wanted = self.proposal_blocks if role == "teacher" else self.answer_blocks
        return Request(self.name, role, instruction, examples, given, wanted, few_shot, self.system)

    def seeds(self) -> Sequence[Any]:
        return ()

    def show(self, problem: Problem) -> tuple[Block, ...]:
        return (*((name, str(value)) for name, value in payload_fields(problem.payload).items()),)

    def length(self, problem: Problem) -> int:
        return sum(len(text) for _, text in self.show(problem))

    def structure(self, problem: Problem) -> str:
        return problem.key

    def cell(self, problem: Problem) -> str:
        return problem.kind

    def probe(self, problem: Problem) -> Job | None:
        return None

    def behaviour(self, problem: Problem, outcome: Outcome | None) -> str:
        return problem.key

    def ask_answer(self, problem: Problem) -> Request:
        raise NotImplementedError(f"{type(self).__name__} does not say what a student is asked")

    def surface(self, problem: Problem) -> Mapping[str, float | str]:
        return describe_surface(self.ask_answer(problem).given, problem.gold[0])

    def without_evidence(self, problem: Problem, rng: Random) -> Request | None:
        return None

    def trace(self, problem: Problem) -> Job | None:
        return None

    def first_wrong_line(
        self, problem: Problem, reasoning: str, outcome: Outcome | None
    ) -> int | None:
        return None

    def example(self, role: str) -> FewShot | None:
        return None

    def load_payload(self, fields: Mapping[str, Any]) -> Any:
        """Lists become tuples, as a frozen payload has them. A row of a file may have other fields
        beside the payload's own."""
        own = self.payload.__dataclass_fields__  # type: ignore[attr-defined]
        try:
            return self.payload(**{name: freeze(fields[name]) for name in own if name in fields})
        except TypeError as error:
            raise ValueError(str(error)) from error


def take(blocks: Sequence[Block], label: str) -> str:
    """The one block with this label."""
    texts = [text for name, text in blocks if name == label]
    if len(texts) != 1:
        raise Malformed(f"{len(texts)} blocks labelled {label}, expected one")
    return texts[0]
