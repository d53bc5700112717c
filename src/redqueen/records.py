"""The nouns: what one stage hands to the next. Frozen, plain data; a bad model output is a record
too, with a reason."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


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
    """Such as S2, or S2.30 for a child born in step 30."""
    role: Role
    """`both` in self-play."""
    slot: int
    """Where its weights are: a number within its world."""
    version: int = 0
    """How often it was trained."""
    rating: Rating = Rating()
    """Its skill, as games have shown it."""
    born: int = 0
    """The step of its birth."""
    learning_rate: float | None = None
    """Its own, where it has one."""
    temperature: float | None = None
    """At which it writes, where it has its own."""


@dataclass(frozen=True, slots=True)
class Birth:
    """A child and how it came about."""

    member: Member
    parents: tuple[str, ...] = ()
    """The fitter one first; empty for members that were there from the beginning."""
    operator: str = "new"
    """A name of the operators' tables, or an import path."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The operator's settings, and the seed of its random numbers."""


@dataclass(frozen=True, slots=True)
class Death:
    """A member that was replaced."""

    member: Member
    reason: str
    """In words, with the number that decided."""


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
class PersonAction:
    """Something that a person did with a run: posed a problem, vetoed or rated some, answered
    one."""

    id: str
    author: str
    """The name that the person gave."""
    world: int
    action: str
    """pose, veto, rate or answer."""
    content: Mapping[str, Any]
    """Checked when it was read: its fields follow from the action."""

    @property
    def member(self) -> str:
        """The author where the ledger names members: no member is called like this."""
        return f"person:{self.author}"


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


@dataclass(frozen=True, slots=True)
class Problem:
    """A verified problem. What is in the payload and the gold answer is its kind's own business:
    nothing outside `tasks/` looks into them."""

    key: str
    """Equal problems have equal keys: a hash of the kind and of what the kind calls the same."""
    kind: str
    """Its task kind, such as code_o."""
    payload: Any
    """The problem itself, a frozen dataclass of the kind's own; stored as JSON."""
    gold: tuple[str, ...]
    """What answers are compared with."""
    features: Mapping[str, float]
    """Numbers that say how complex it is, by name."""
    author: Author | None = None
    """The teacher, at the version it had then; None for problems that nobody posed."""
    step: int = 0
    """The step in which it was posed; 0 for the archive's seeds."""


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
    """What was asked."""
    text: str
    """The whole reply, reasoning included."""
    verdict: Literal["correct", "wrong", "malformed", "voided"]
    """voided: the problem turned out to be none, whatever was answered."""
    detail: str = ""
    """Why it is wrong or malformed, in words."""
    author: Author | None = None
    """The student, at the version it had then."""
    rollout: Rollout | None = None
    """The reply in tokens; None where nobody sampled it."""


@dataclass(frozen=True, slots=True)
class GameTurn:
    """A text of a game that goes on after the attempts at a problem, and what execution says of
    it."""

    round: int
    """1 for the first one after the attempts."""
    role: str
    """Its author's in the game, such as critic."""
    prompt: int
    """Turns of one game with the same number were sampled from one prompt."""
    shown: tuple[str, ...]
    """What its author was shown: attempts, such as a3, and earlier turns, such as t0."""
    text: str
    verdict: Literal["correct", "wrong", "malformed", "voided"]
    detail: str = ""
    said: str = ""
    """What it claims, in one word; empty where it claims nothing."""
    truth: str = ""
    """What would have been right to claim."""
    bonus: float = 0.0
    """Further credit, from 0 to 1."""
    author: Author | None = None
    rollout: Rollout | None = None
