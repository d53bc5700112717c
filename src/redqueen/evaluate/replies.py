"""The records of an evaluation: which model, sampled how, gave which reply with which verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

BASE = "base"
"""The name of the base among the models under test."""
FORCED = "base, reasoning forced"
"""The base whose replies begin with reasoning: what asking for it is worth, without training."""
SOUP, CHOSEN, VOTE, ROUTER = "soup", "chosen", "vote", "router"
"""What a population hands over: the merge of its students, the student that its own fitness puts
first, the answer that most of them give, and that of the student who is best at a task kind by the
exam."""
BASE_VOTE = "base vote"
"""The vote of the base, with as many votes."""
NOT_MEMBERS = (BASE, FORCED, SOUP, CHOSEN, VOTE, ROUTER, BASE_VOTE)


@dataclass(frozen=True, slots=True)
class EvalConfig:
    """All that a reply depends on, besides the item and the model."""

    suite: str
    prompt_version: str
    style: str
    samples: int
    temperature: float
    max_tokens: int
    dtype: str = "float32"
    provenance: str = ""
    """Run, step and fingerprint of the base: they tell models of the same name apart."""
    reasoning: str = "free"
    """`forced`: replies begin with reasoning, where the prompt format has a way to begin it."""

    @property
    def sampling(self) -> str:
        """How replies are sampled, in words."""
        return describe_sampling(self.samples, self.temperature)

    def to_json(self) -> dict[str, Any]:
        return {
            "prompt_version": self.prompt_version,
            "style": self.style,
            "max_tokens": self.max_tokens,
            "samples": self.samples,
            "temperature": self.temperature,
            "reasoning": self.reasoning,
        }


def describe_sampling(samples: int, temperature: float) -> str:
    return f"{samples} at temperature {temperature:g}" if temperature else "greedy"


@dataclass(frozen=True, slots=True)
class Model:
    """One model under test: a base, an adapter, or a member of a run."""

    name: str
    """Such as S2, and in a run of several worlds 1/S2."""
    slot: int = 0
    member: str = ""
    """Its id in its world."""
    role: str = "student"
    """Of a member; else `base`, `soup` or `router`."""
    world: int = 0
    arm: str = ""
    forced: bool = False
    """Its replies begin with reasoning, whatever the other models do."""
    chosen: bool = False
    """Whether it is the student that its world's own fitness puts first."""
    students: int = 0
    """How many its world has, where it has one."""
    samples: int = 0
    """Replies to each item, where it differs from the other models."""
    routes: tuple[tuple[str, int], ...] = ()
    """Of a router: the slot that is asked, by task kind; other kinds are asked of `slot`."""

    def slot_for(self, kind: str) -> int:
        return dict(self.routes).get(kind, self.slot)

    @property
    def is_base(self) -> bool:
        return self.name == BASE

    @property
    def is_reference(self) -> bool:
        """Whether it is the base, one way or the other."""
        return self.name in (BASE, FORCED)

    @property
    def is_solver(self) -> bool:
        """Whether it solves problems, and is neither a reference nor a merge of those that do."""
        return self.role in ("student", "both") and not self.is_reference


def base_models(slot: int = 0) -> tuple[Model, Model]:
    """The base, as it is and with its reasoning forced."""
    base = Model(BASE, slot, role=BASE)
    return base, replace(base, name=FORCED, forced=True)


@dataclass(frozen=True, slots=True)
class GradedReply:
    item: str
    model: str
    sample: int
    reply: str
    correct: bool
    reason: str
    """Why it is not correct."""
    truncated: bool
    """It ended at the token limit."""
    vote_key: str | None
    """The answer in a form that can be compared; empty: there is none. None: answers to this item
    cannot be compared."""
    reasoned: bool | None
    """Whether it begins with reasoning. None: replies to this item never do, or it cannot be
    told."""


ByItem = Mapping[str, Sequence[GradedReply]]
"""One model's replies by item."""


def share_correct(replies: Sequence[GradedReply]) -> float:
    return sum(reply.correct for reply in replies) / len(replies)
