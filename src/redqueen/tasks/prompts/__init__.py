"""Prompt formats: `chat` for instruction-tuned models, `compact` for tiny ones."""

import re

from redqueen.config.registry import Registry, check_vouched
from redqueen.tasks.prompts.chat import ChatFormat
from redqueen.tasks.prompts.compact import CompactFormat
from redqueen.tasks.prompts.format import Prompt, PromptFormat, Quote, WritesReplies, join_parts

__all__ = [
    "PROMPT_FORMATS",
    "Prompt",
    "PromptFormat",
    "Quote",
    "WritesReplies",
    "has_reasoning",
    "join_parts",
    "load_prompt_format",
    "reasoning_of",
    "stored_prompt_format",
]

PROMPT_FORMATS: Registry[PromptFormat] = Registry(
    "prompt format", {"chat": ChatFormat(), "compact": CompactFormat()}
)

_REASONING = re.compile(r"</think>|^>>think$", re.MULTILINE)


def has_reasoning(text: str) -> bool:
    """Whether a model wrote a chain of thought before its answer, in either format."""
    return _REASONING.search(text) is not None


def reasoning_of(text: str) -> str:
    """The chain of thought that a model wrote before its answer; empty where there is none."""
    if "</think>" in text:
        return text.partition("</think>")[0].rpartition("<think>")[2].strip("\n")
    _, mark, rest = f"\n{text}".partition("\n>>think\n")
    return rest.partition("\n>>")[0] if mark and not rest.startswith(">>") else ""


def load_prompt_format(name: str) -> PromptFormat:
    """A prompt format by name, or by the import path of a class of your own."""
    row = PROMPT_FORMATS[name]
    return row() if isinstance(row, type) else row


def stored_prompt_format(name: str) -> PromptFormat:
    """One that a stored run names. It is imported only where somebody vouches for it."""
    check_vouched(PROMPT_FORMATS.what, name)
    return load_prompt_format(name)
