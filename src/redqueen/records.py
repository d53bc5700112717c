"""The nouns: what one stage hands to the next. Frozen, plain data; a bad model output is a record
too, with a reason."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from redqueen.sandbox.inspection.complexity import Complexity


def content_key(*parts: str) -> str:
    """A hash of texts in order; the lengths keep ('ab', 'c') and ('a', 'bc') apart."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


Role = Literal["teacher", "student", "both"]


@dataclass(frozen=True, slots=True)
class Rating:
    """A skill as TrueSkill believes it to be."""

    mu: float = 25.0
    sigma: float = 25.0 / 3

    @property
    def bound(self) -> float:
        """The lower bound that members are ranked by."""
        return self.mu - 3 * self.sigma


@dataclass(frozen=True, slots=True)
class Member:
    """One adapter of a world, as it is now."""

    id: str
    role: Role
    slot: int
    """Where its weights are: a number within its world."""
    version: int = 0
    """How often it was trained."""
    rating: Rating = Rating()
    born: int = 0
    """The step of its birth."""
    learning_rate: float | None = None
    """Its own, where it has one."""
    temperature: float | None = None
    """At which it writes, where it has its own."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """One teacher and the student that attempts its problems in this step."""

    teacher: Member
    student: Member
    expected: float
    """The chance that the student wins, by the ratings before."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote a text: a member, at the version its weights had then."""

    member: str
    version: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """A sampled text, in tokens, with what training needs to learn from it."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Of each token, as it was sampled."""
    finish_reason: Literal["stop", "length"]

    @property
    def logprob(self) -> float:
        """The mean over its tokens."""
        return sum(self.logprobs) / len(self.logprobs) if self.logprobs else 0.0


@dataclass(frozen=True)
class Problem:
    """A verified problem: its program ran, and gave these outputs for these inputs, in three
    processes alike."""

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

    @cached_property
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
    rollout: Rollout | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A proposal that is no problem. The reason is one word, to be counted; the detail is for
    people."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer to one problem, and the verdict."""

    problem: Problem
    text: str
    verdict: Literal["correct", "wrong", "malformed"]
    detail: str = ""
    author: Author | None = None
    rollout: Rollout | None = None
