"""The nouns: what one stage hands to the next. Frozen, plain data; a bad model output is a record too, with a reason."""

from dataclasses import dataclass
from typing import Literal

from redqueen.program.complexity import Complexity
from redqueen.program.keys import content_key


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote a text: a member, at the version its weights had then."""

    member: str
    version: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A verified problem: its program ran, and gave these outputs for these inputs, in three processes alike."""

    kind: str
    program: str
    inputs: tuple[str, ...]
    """Arguments of one call each, in normal spelling."""
    outputs: tuple[str, ...]
    """The gold answers: canonical text, one for each input."""
    canonical: str
    """The program's canonical form."""
    complexity: Complexity
    steps: int
    """Lines executed over all inputs, capped."""
    message: str = ""
    author: Author | None = None

    @property
    def key(self) -> str:
        """Equal problems are the same problem: the hash of kind, canonical program and inputs."""
        return content_key(self.kind, self.canonical, *self.inputs)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A problem as a teacher wrote it, with the problems it was shown."""

    kind: str
    text: str
    references: tuple[Problem, ...] = ()
    author: Author | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A proposal that is no problem. The reason is one word, to be counted; the detail is for people."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer to one problem, and the verdict."""

    problem: Problem
    text: str
    verdict: Literal["right", "wrong", "malformed"]
    detail: str = ""
    author: Author | None = None
