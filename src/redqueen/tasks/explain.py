"""What a kind can have besides, where the way to an answer is known: reasoning with one wrong line,
and the answer that it leads to."""

from dataclasses import dataclass
from random import Random
from typing import Protocol, runtime_checkable

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome


@dataclass(frozen=True, slots=True)
class Altered:
    """The beginning of a correct reasoning, and the same with its last line changed."""

    true: str
    changed: str
    job: Job
    """Its outcome tells which answer the changed one leads to."""


@runtime_checkable
class Explains(Protocol):
    """A kind whose reasoning can be altered."""

    def alter(self, problem: Problem, outcome: Outcome | None, rng: Random) -> Altered | None:
        """From the outcome of its trace; None where there is no step to alter."""
        ...

    def altered_answer(self, outcome: Outcome | None) -> str:
        """The answer that the changed reasoning leads to, from the outcome of its job; empty: it is
        not known."""
        ...
