"""The suite protocol: items, a prompt for each, and a verdict on each reply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from redqueen.sandbox import Sandbox
from redqueen.tasks.prompts import Prompt, PromptFormat, load_prompt_format

if TYPE_CHECKING:
    from redqueen.benchmarks.maths.grader import MathsGrader

SYSTEM = "You are a helpful assistant."
"""The system text of every chat prompt."""


@dataclass(frozen=True, slots=True)
class Item:
    """One problem of a suite."""

    id: str
    fields: Mapping[str, Any]
    """As its file has them."""
    kind: str = ""
    """The task kind, where a suite has several."""
    tier: int = 0
    """Difficulty, where it is known."""
    max_tokens: int | None = None
    """Limit for a reply, where it differs from the suite's."""


@dataclass(frozen=True, slots=True)
class Verdict:
    correct: bool
    reason: str = ""
    """Why it is not correct: `no answer`, `wrong`, `timeout`, `error: NameError`, ..."""
    seconds: float = field(default=0.0, compare=False)
    """What its program or formula took: in the sandbox CPU time, in a maths worker time."""


CORRECT = Verdict(True)


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How a model is prompted."""

    chat: bool
    """Through its chat template; otherwise it continues a text."""
    prompt_format: PromptFormat = field(default_factory=lambda: load_prompt_format("chat"))
    """Of problems of a task kind."""

    @property
    def name(self) -> Literal["chat", "base"]:
        return "chat" if self.chat else "base"


CHAT, BASE = PromptStyle(chat=True), PromptStyle(chat=False)


@dataclass(frozen=True, slots=True)
class Graders:
    """The sandbox for programs, worker processes for maths."""

    sandbox: Sandbox
    maths: "MathsGrader"


class Suite(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def max_tokens(self) -> int:
        """Limit for a reply."""
        ...

    @property
    def note(self) -> str:
        """What a reader of its scores must know; empty: nothing."""
        ...

    def prompt_version(self, style: PromptStyle) -> str:
        """Changes with any word of the prompts."""
        ...

    def items(self, data: Path | None, limit: int | None) -> list[Item]:
        """All items, or `limit` of them. `data` is a folder of benchmark files; None: the default
        place."""
        ...

    def prompt(self, item: Item, style: PromptStyle) -> Prompt: ...

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        """One verdict for each reply, in order."""
        ...

    def vote_key(self, item: Item, reply: str, style: PromptStyle) -> str | None:
        """The answer in a form in which equal answers are equal texts, for majority votes; empty:
        the reply has none. None: answers to this item cannot be compared."""
        ...
