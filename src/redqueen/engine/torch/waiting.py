"""Rows that wait for a lane: in groups of one prompt, a queue for each slot."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from redqueen.engine.protocol import SampleRequest
from redqueen.engine.torch.cache import Prompts
from redqueen.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass over prompts has left: keys and values, and logits after each prompt."""

    prompts: Prompts
    logits: Tensor


@dataclass(slots=True)
class Group:
    """Rows with one slot and one prompt."""

    slot: int
    prompt: tuple[int, ...]
    rows: list[int]
    """Those that wait."""
    read: Pass | None = None
    """The pass that the prompt was in."""
    place: int = 0
    """Which of the prompts of that pass it is."""

    def take(self, count: int) -> list[int]:
        """The next rows, at most so many: they wait no longer."""
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken


Entering = tuple[Group, list[int], list[int]]
"""A group, rows of it, and a lane for each of them."""


def queues(rows: Sequence[SampleRequest]) -> dict[int, deque[Group]]:
    """Groups of rows by slot, short prompts first: those that go through the model together are of
    about one length."""
    groups: dict[tuple[int, tuple[int, ...]], Group] = {}
    for number, row in enumerate(rows):
        if not row.prompt or row.max_tokens < 1:
            raise ConfigError("a row needs a prompt of one token or more, and room for one token")
        if row.temperature is not None and row.temperature <= 0:
            raise ConfigError(
                "a row's own temperature is above zero: greedy is a whole call, by its SamplingParams"
            )
        groups.setdefault((row.slot, row.prompt), Group(row.slot, row.prompt, [])).rows.append(
            number
        )
    waiting: dict[int, deque[Group]] = {
        slot: deque() for slot in sorted({row.slot for row in rows})
    }
    for group in sorted(groups.values(), key=lambda group: len(group.prompt)):
        waiting[group.slot].append(group)
    return waiting


def first(groups: Iterable[Group], rows: float) -> list[Group]:
    """The first groups that have so many rows together."""
    found, count = [], 0
    for group in groups:
        if count >= rows:
            break
        found.append(group)
        count += len(group.rows)
    return found
