"""Scribes: prompts go in as text, what members write comes out as text, with the tokens that
training needs.

This is the loop's only way to a model. A scripted sampler stands in for one in tests of the method
itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from redqueen.engine.protocol import Completion, SampleRequest, SamplingParams
from redqueen.records import Rollout
from redqueen.tasks.prompts import Prompt

if TYPE_CHECKING:
    from redqueen.engine.torch.engine import TorchEngine
    from redqueen.models.base import Base


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A member is asked to go on with a prompt."""

    slot: int
    prompt: Prompt
    max_tokens: int
    seed: int
    temperature: float | None = None
    """The member's own, where it has one."""


@dataclass(frozen=True, slots=True)
class TextCompletion:
    text: str
    rollout: Rollout


Receive = Callable[[Sequence[tuple[int, TextCompletion]]], None]
"""Given texts as they are ended, with the numbers of their asks."""


class TextSampler(Protocol):
    def write(
        self, asks: Sequence[TextRequest], temperature: float, receive: Receive
    ) -> list[TextCompletion]:
        """One text for each ask, in order; `receive` gets each once, as soon as it is there."""
        ...


class EngineTextSampler:
    """The members of an engine on a base."""

    def __init__(self, engine: "TorchEngine", base: "Base") -> None:
        self.engine, self.base = engine, base
        self.context: int = getattr(base.model.config, "max_position_embeddings", None) or 1 << 30

    def write(
        self, asks: Sequence[TextRequest], temperature: float, receive: Receive = lambda some: None
    ) -> list[TextCompletion]:
        found: list[TextCompletion | None] = [None] * len(asks)
        encoded = {
            prompt: tuple(self.base.encode(prompt))
            for prompt in dict.fromkeys(ask.prompt for ask in asks)
        }  # many ask the same
        prompts = [encoded[ask.prompt] for ask in asks]
        fitting = [number for number, prompt in enumerate(prompts) if len(prompt) < self.context]
        for number in set(range(len(asks))) - set(
            fitting
        ):  # no room for a single token: an empty text, which nobody can read
            found[number] = TextCompletion("", Rollout(prompts[number], (), (), "length"))
            receive([(number, found[number])])  # type: ignore[list-item]
        rows = [
            SampleRequest(
                prompts[number],
                min(ask.max_tokens, self.context - len(prompts[number])),
                ask.slot,
                ask.seed,
                ask.temperature,
            )
            for number, ask in ((number, asks[number]) for number in fitting)
        ]

        texts: dict[tuple[int, ...], str] = {}

        def ended(some: Sequence[tuple[int, Completion]]) -> None:
            new = []
            for row, completion in some:
                number = fitting[row]
                if completion.tokens not in texts:  # many write the same
                    texts[completion.tokens] = self.base.decode(list(completion.tokens))
                writing = Rollout(
                    prompts[number],
                    completion.tokens,
                    completion.logprobs,
                    completion.finish_reason,
                )
                found[number] = written = TextCompletion(texts[completion.tokens], writing)
                new.append((number, written))
            receive(new)

        stop_tokens, stop_texts = self.base.stops(text for ask in asks for text in ask.prompt.stop)
        self.engine.generate(
            rows, SamplingParams(temperature, stop_tokens, stop_texts), on_finish=ended
        )
        assert all(written is not None for written in found)
        return found  # type: ignore[return-value]
