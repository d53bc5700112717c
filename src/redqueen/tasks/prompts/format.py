"""What a prompt format is: how a request becomes text, and a model's text becomes blocks."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol, runtime_checkable

from redqueen.tasks.kind import Block, Request

Span = tuple[int, int]
"""Start and end of a part of a text."""


class Quote(str):
    """A part of a prompt that a model may have written, as a program or a message."""


def join_parts(parts: Iterable[str]) -> tuple[str, tuple[Span, ...]]:
    """Parts as one text, and where its quotes are: `text` and `quotes` of a `Prompt`."""
    parts = list(parts)
    ends = list(accumulate(map(len, parts)))
    quotes = [
        (end - len(part), end)
        for part, end in zip(parts, ends, strict=True)
        if isinstance(part, Quote)
    ]
    return "".join(parts), tuple(quotes)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is given. With a system text it goes through the model's chat template; without,
    it is continued as it stands."""

    text: str
    system: str | None = None
    stop: tuple[str, ...] = ()
    """Generation ends where the model has written one of these."""
    before: tuple[tuple[str, str], ...] = ()
    """Earlier turns of the chat: what was asked, and what was replied."""
    prefix: str = ""
    """The reply begins with this text, which the model is given instead of writing it."""
    quotes: tuple[Span, ...] = ()
    """The parts of `text` that models may have written. They are encoded as text, even where they
    spell a control token."""


class PromptFormat(Protocol):
    """Typography only: it knows nothing about tasks."""

    @property
    def name(self) -> str: ...

    def render(self, request: Request) -> Prompt: ...

    def reasoning_prefix(self, kind: str) -> str:
        """How a reply begins that reasons first; empty where replies to this task kind never do."""
        ...

    def parse(self, text: str, wanted: tuple[str, ...]) -> list[Block]:
        """The blocks that a model wrote; raises Malformed."""
        ...


@runtime_checkable
class WritesReplies(Protocol):
    """A prompt format that can also write what a model should: for examples to learn from."""

    def write_reply(self, reasoning: str, blocks: tuple[Block, ...]) -> list[str]:
        """What `parse` reads, in parts: all but the format's own marks are quotes."""
        ...
