"""Requests that wait for a sequence slot: grouped by prompt, one queue per adapter."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from redqueen.engine.protocol import SampleRequest
from redqueen.errors import ConfigError


@dataclass(slots=True)
class PromptGroup:
    """Requests with one adapter and one prompt: the prompt is prefilled once for all of them."""

    adapter: int
    prompt: tuple[int, ...]
    waiting: list[int]
    """Requests without a sequence slot, by number."""
    prefill: object | None = None
    """Output of the prefill batch that the prompt was in, opaque to the scheduler. It is freed with
    the last group that refers to it."""
    index: int = 0
    """The prompt's place in that batch."""

    def take(self, count: int) -> list[int]:
        """Remove and return the next requests, at most `count`."""
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken


@dataclass(frozen=True, slots=True)
class Entry:
    """Requests of one prompt and the sequence slots they enter."""

    group: PromptGroup
    requests: list[int]
    seq_slots: list[int]


def build_queues(requests: Sequence[SampleRequest]) -> dict[int, deque[PromptGroup]]:
    """The groups of every adapter, short prompts first: prompts prefilled together then have about
    one length and little padding."""
    groups: dict[tuple[int, tuple[int, ...]], PromptGroup] = {}
    for number, request in enumerate(requests):
        _check(number, request)
        group = groups.setdefault(
            (request.slot, request.prompt), PromptGroup(request.slot, request.prompt, [])
        )
        group.waiting.append(number)
    queues: dict[int, deque[PromptGroup]] = {
        adapter: deque() for adapter in sorted({request.slot for request in requests})
    }
    for group in sorted(groups.values(), key=lambda group: len(group.prompt)):
        queues[group.adapter].append(group)
    return queues


def _check(number: int, request: SampleRequest) -> None:
    if not request.prompt or request.max_tokens < 1:
        raise ConfigError(
            f"request {number} has a prompt of {len(request.prompt)} tokens and max_tokens "
            f"{request.max_tokens}: both must be at least 1"
        )
    if request.temperature is not None and request.temperature <= 0:
        raise ConfigError(
            f"request {number} has temperature {request.temperature}: a request's own temperature "
            "must be above zero. For greedy decoding set SamplingParams.temperature = 0, which "
            "applies to the whole call"
        )


def take_groups(groups: Iterable[PromptGroup], requests: float) -> list[PromptGroup]:
    """The first groups that hold this many waiting requests together."""
    taken, count = [], 0
    for group in groups:
        if count >= requests:
            break
        taken.append(group)
        count += len(group.waiting)
    return taken


def split_into_prefill_batches(
    groups: Sequence[PromptGroup], max_prefill_tokens: int
) -> Iterator[list[PromptGroup]]:
    """Batches of prompts of about one length, each sorted by adapter. With padding, a batch has at
    most `max_prefill_tokens` tokens, or is one longer prompt."""
    ordered = sorted(groups, key=lambda group: len(group.prompt))
    while ordered:
        count = 1
        while (
            count < len(ordered) and (count + 1) * len(ordered[count].prompt) <= max_prefill_tokens
        ):
            count += 1
        yield sorted(ordered[:count], key=lambda group: group.adapter)
        ordered = ordered[count:]
