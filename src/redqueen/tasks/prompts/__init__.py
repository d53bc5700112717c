"""Prompt formats: `chat` for instruction-tuned models, `compact` for tiny ones."""

import re
from itertools import takewhile

from redqueen.config.registry import Registry
from redqueen.tasks.prompts.chat import ChatFormat
from redqueen.tasks.prompts.compact import CompactFormat
from redqueen.tasks.prompts.format import Prompt, PromptFormat, Quote, join_parts

__all__ = [
    "PROMPT_FORMATS",
    "Prompt",
    "PromptFormat",
    "Quote",
    "has_reasoning",
    "join_parts",
    "load_prompt_format",
    "reasoning_of",
]

PROMPT_FORMATS: Registry[PromptFormat] = Registry(
    "prompt format", {"chat": ChatFormat(), "compact": CompactFormat()}
)

_REASONING = re.compile(r"</think>|^>>think$", re.MULTILINE)


def has_reasoning(text: str) -> bool:
    """Whether a model wrote a chain of thought before its answer, in either format."""
    return _REASONING.search(text) is not None


def reasoning_of(text: str) -> str:
    """The chain of thought that a model wrote before its answer, in either format; empty where
    there is none."""
    before, mark, _ = text.rpartition("</think>")
    if mark:
        return before.strip().removeprefix("<think>").strip("\n")
    lines = text.splitlines()
    if ">>think" not in lines:
        return ""
    after = lines[lines.index(">>think") + 1 :]
    return "\n".join(takewhile(lambda line: not line.startswith(">>"), after))


def load_prompt_format(name: str) -> PromptFormat:
    """A prompt format by name, or by the import path of a class of your own."""
    row = PROMPT_FORMATS[name]
    return row() if isinstance(row, type) else row
