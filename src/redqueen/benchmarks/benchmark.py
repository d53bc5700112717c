"""What benchmarks share: items from a file, a fixed prompt version, and replies known to be correct
or wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redqueen.benchmarks.data import Source, read_rows
from redqueen.benchmarks.suite import CHAT, Graders, Item, PromptStyle, Verdict
from redqueen.tasks.prompts import Prompt


@dataclass(frozen=True, slots=True)
class WrongReply:
    """A reply that cannot be correct, and how that is known without the grader."""

    name: str
    reply: str
    check: tuple[str, str] | None = None
    """A program and its tests: wrong if these fail in a plain interpreter. None: wrong by
    construction."""
    style: PromptStyle = CHAT


class Benchmark:
    """A published benchmark: a suite with a file of items."""

    name: str
    source: Source
    version: str
    max_tokens: int
    note: str = ""
    summary: str = ""
    """What is asked, and when an answer is correct."""

    def prompt_version(self, style: PromptStyle) -> str:
        return self.version

    def items(self, data: Path | None, limit: int | None) -> list[Item]:
        return self.read_items(read_rows(self.name, self.source, data))[:limit]

    def read_items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        raise NotImplementedError

    def prompt(self, item: Item, style: PromptStyle) -> Prompt:
        raise NotImplementedError

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        raise NotImplementedError

    def vote_key(self, item: Item, reply: str, style: PromptStyle) -> str | None:
        return None  # programs are equal by what they do, which is not compared here

    def gold_reply(self, item: Item) -> str | None:
        """The reference answer as a chat model would write it; None where there is none."""
        raise NotImplementedError

    def wrong_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        """Replies to the item at that place that cannot be correct."""
        raise NotImplementedError

    def forged_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        """The cheapest cheats for the item at that place. None is correct by luck: what could be is
        left out, or checked."""
        raise NotImplementedError
