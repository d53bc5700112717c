"""Text in, text out: prompts are encoded, members sample, completions come back as text with the
tokens that training needs.

This is the method's only way to a model. A scripted sampler stands in for one in tests of the
method itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from redqueen.engine.protocol import Completion, Sampler, SampleRequest, SamplingParams, Tokenizer
from redqueen.records import Rollout
from redqueen.tasks.prompts import Prompt


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A prompt for one member."""

    slot: int
    """The member's adapter slot."""
    prompt: Prompt
    max_tokens: int
    seed: int
    temperature: float | None = None
    """The member's own, where it has one."""
    item: Any = field(default=None, compare=False)
    """What the request is for; whoever gets the completion finds it there."""


@dataclass(frozen=True, slots=True)
class TextCompletion:
    request: TextRequest
    text: str
    rollout: Rollout


OnText = Callable[[Sequence[TextCompletion]], None]
"""Given completions as soon as they are finished, each once."""


class TextSampler(Protocol):
    def sample(
        self, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
    ) -> list[TextCompletion]:
        """One completion for each request, in order."""
        ...


class EngineTextSampler:
    """The members of an engine, or its bare base."""

    def __init__(self, sampler: Sampler, tokenizer: Tokenizer, context: int) -> None:
        self.sampler, self.tokenizer, self.context = sampler, tokenizer, context

    def sample(
        self,
        requests: Sequence[TextRequest],
        temperature: float,
        on_finish: OnText = lambda completions: None,
    ) -> list[TextCompletion]:
        tokenizer, context = self.tokenizer, self.context
        # many requests have the same prompt
        prompts = dict.fromkeys(request.prompt for request in requests)
        encoded = {prompt: tuple(tokenizer.encode(prompt)) for prompt in prompts}
        completions: list[TextCompletion | None] = [None] * len(requests)
        fitting: list[int] = []
        for number, request in enumerate(requests):
            prompt = encoded[request.prompt]
            if len(prompt) < context:
                fitting.append(number)
            else:  # no room for a single token: an empty text, which is malformed
                empty = TextCompletion(request, "", Rollout(prompt, (), (), "length"))
                completions[number] = empty
                on_finish([empty])
        texts: dict[tuple[int, ...], str] = {}

        def decode(finished: Sequence[tuple[int, Completion]]) -> None:
            new = []
            for place, completion in finished:
                number = fitting[place]
                request, tokens = requests[number], completion.tokens
                if tokens not in texts:  # many completions are the same
                    texts[tokens] = tokenizer.decode(tokens)
                text = request.prompt.prefix + texts[tokens]
                rollout = Rollout(
                    encoded[request.prompt], tokens, completion.logprobs, completion.finish_reason
                )
                new.append(TextCompletion(request, text, rollout))
                completions[number] = new[-1]
            on_finish(new)

        stop_tokens, stop_texts = tokenizer.stops(
            text for request in requests for text in request.prompt.stop
        )
        self.sampler.sample(
            [_encode(requests[number], encoded, context) for number in fitting],
            SamplingParams(temperature, stop_tokens, stop_texts),
            decode,
        )
        finished = [completion for completion in completions if completion is not None]
        assert len(finished) == len(requests)
        return finished


def _encode(
    request: TextRequest, encoded: dict[Prompt, tuple[int, ...]], context: int
) -> SampleRequest:
    prompt = encoded[request.prompt]
    room = min(request.max_tokens, context - len(prompt))
    return SampleRequest(prompt, room, request.slot, request.seed, request.temperature)
