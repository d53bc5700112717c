"""Sampling as text: prompts in, texts out, with the tokens that training needs.

This is how the method reaches a model. Tests of the method put a scripted sampler in its place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from redqueen.engine.protocol import Completion, Sampler, SampleRequest, SamplingParams, Tokenizer
from redqueen.records import Rollout
from redqueen.tasks.prompts import Prompt


@dataclass(frozen=True, slots=True)
class TextRequest:
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


OnText = Callable[[Sequence[tuple[int, TextCompletion]]], None]
"""Receives texts as they finish, each with its request's position in the call."""


class TextSampler(Protocol):
    def sample(
        self, requests: Sequence[TextRequest], temperature: float, on_text: OnText
    ) -> list[TextCompletion]:
        """One text per request, in order. `on_text` gets each of them once, earlier."""
        ...


class EngineTextSampler:
    """The members of an engine, or its bare base."""

    def __init__(self, sampler: Sampler, tokenizer: Tokenizer, context: int) -> None:
        self.sampler, self.tokenizer, self.context = sampler, tokenizer, context

    def sample(
        self,
        requests: Sequence[TextRequest],
        temperature: float,
        on_text: OnText = lambda finished: None,
    ) -> list[TextCompletion]:
        texts: dict[int, TextCompletion] = {}
        distinct = dict.fromkeys(request.prompt for request in requests)  # encoded once each
        encoded = {prompt: self.tokenizer.encode(prompt) for prompt in distinct}
        prompts = [encoded[request.prompt] for request in requests]
        fitting = [number for number, prompt in enumerate(prompts) if len(prompt) < self.context]
        for number in sorted(set(range(len(requests))) - set(fitting)):
            # No room for a single token: an empty text, which no kind can parse.
            texts[number] = TextCompletion("", Rollout(prompts[number], (), (), "length"))
            on_text([(number, texts[number])])

        decoded: dict[tuple[int, ...], str] = {}

        def receive(finished: Sequence[tuple[int, Completion]]) -> None:
            new = []
            for place, done in finished:
                number = fitting[place]
                if done.tokens not in decoded:  # members often write the same
                    decoded[done.tokens] = self.tokenizer.decode(done.tokens)
                rollout = Rollout(prompts[number], done.tokens, done.logprobs, done.finish_reason)
                texts[number] = TextCompletion(decoded[done.tokens], rollout)
                new.append((number, texts[number]))
            on_text(new)

        stops = self.tokenizer.stops(text for request in requests for text in request.prompt.stop)
        sampling = SamplingParams(temperature, *stops)
        self.sampler.sample(
            [self._fit(requests[number], prompts[number]) for number in fitting], sampling, receive
        )
        return [texts[number] for number in range(len(requests))]

    def _fit(self, request: TextRequest, prompt: tuple[int, ...]) -> SampleRequest:
        """The request in tokens, ending where the context does."""
        return SampleRequest(
            prompt,
            min(request.max_tokens, self.context - len(prompt)),
            request.slot,
            request.seed,
            request.temperature,
        )
