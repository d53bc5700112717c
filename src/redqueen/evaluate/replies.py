"""The records of an evaluation: which model, sampled how, gave which reply with which verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BASE = "base"
"""The name of the base among the models under test."""


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
    world: int = 0
    arm: str = ""

    @property
    def is_base(self) -> bool:
        return self.name == BASE


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


ByItem = Mapping[str, Sequence[GradedReply]]
"""One model's replies by item."""


def share_correct(replies: Sequence[GradedReply]) -> float:
    return sum(reply.correct for reply in replies) / len(replies)
