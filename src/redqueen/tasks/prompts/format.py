"""What a prompt format is: how a request becomes text, and a model's text becomes blocks."""

from dataclasses import dataclass
from typing import Protocol

from redqueen.tasks.kind import Block, Request


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


class PromptFormat(Protocol):
    """Typography only: it knows nothing about tasks."""

    @property
    def name(self) -> str: ...

    def render(self, request: Request) -> Prompt: ...

    def parse(self, text: str, wanted: tuple[str, ...]) -> list[Block]:
        """The blocks that a model wrote; raises Malformed."""
        ...
