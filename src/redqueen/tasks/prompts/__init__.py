"""Prompt packs: how a request becomes text and a model's text becomes blocks. They know typography,
not tasks."""

import re
from dataclasses import dataclass
from typing import Protocol

from redqueen.errors import ConfigError, unknown
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
    @property
    def name(self) -> str: ...

    def render(self, request: Request) -> Prompt: ...

    def parse(self, text: str, wanted: tuple[str, ...]) -> list[Block]:
        """The blocks that a model wrote; raises Malformed."""
        ...


_THOUGHTS = re.compile(r"</think>|^>>think$", re.MULTILINE)


def has_reasoning(text: str) -> bool:
    """Whether a model wrote down a thought before its answer, in either prompt_format."""
    return _THOUGHTS.search(text) is not None


def load_prompt_format(name: str) -> PromptFormat:
    from redqueen.tasks.prompts.chat import ChatFormat
    from redqueen.tasks.prompts.compact import CompactFormat

    packs: dict[str, PromptFormat] = {"chat": ChatFormat(), "compact": CompactFormat()}
    if name not in packs:
        raise ConfigError(unknown("prompt format", name, packs))
    return packs[name]
