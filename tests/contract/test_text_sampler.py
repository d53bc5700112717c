"""The sampler: texts by their asks, each given once as soon as it is there, and a prompt that is too
long costs one text, not the run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from redqueen.engine.text_sampler import EngineTextSampler, TextCompletion, TextRequest
from redqueen.tasks.prompts import Prompt

if TYPE_CHECKING:
    from redqueen.models.base import Base

SHORT = ">>student code_o\n>>program\ndef f(a):\n    return a + {number}\n>>input\n3\n>>answer\n"


def ask(text: str, seed: int = 0, max_tokens: int = 12) -> TextRequest:
    return TextRequest(0, Prompt(text, None, (">>end",)), max_tokens, seed)


def written(
    pawn: "Base", asks: list[TextRequest]
) -> tuple[list[TextCompletion], dict[int, TextCompletion]]:
    from redqueen.engine.torch.engine import TorchEngine

    engine, received = TorchEngine(pawn), dict[int, TextCompletion]()
    sampler = EngineTextSampler(engine, engine.tokenizer, engine.base.context)

    def receive(finished: Sequence[TextCompletion]) -> None:
        for one in finished:
            assert one.request.item not in received
            received[one.request.item] = one

    numbered = [replace(one, item=number) for number, one in enumerate(asks)]
    found = sampler.sample(numbered, 1.0, receive)
    return found, received


def test_texts_are_in_the_order_of_the_asks_and_each_is_given_once(pawn: "Base") -> None:
    asks = [ask(SHORT.format(number=number), number, 3 + 7 * (number % 3)) for number in range(6)]
    found, received = written(pawn, asks)
    assert received == dict(enumerate(found))
    for one, asked in zip(found, asks, strict=True):
        assert one.rollout.prompt == tuple(pawn.encode(asked.prompt))
        assert 0 < len(one.rollout.tokens) == len(one.rollout.logprobs) <= asked.max_tokens
        assert one.text == pawn.decode(list(one.rollout.tokens))
        assert one.rollout.finish_reason == "stop" or len(one.rollout.tokens) == asked.max_tokens
    for alone, beside in zip(written(pawn, asks[2:4])[0], found[2:4], strict=True):
        assert alone.text == beside.text  # whatever is written beside them
        assert alone.rollout.tokens == beside.rollout.tokens
        assert alone.rollout.logprobs == pytest.approx(beside.rollout.logprobs, abs=1e-4)


def test_a_prompt_without_room_for_a_token_gives_an_empty_text_and_the_others_their_own(
    pawn: "Base",
) -> None:
    context = pawn.model.config.max_position_embeddings
    long = SHORT.format(number=1) * (context // 10)
    assert len(pawn.encode(Prompt(long))) >= context
    found, received = written(
        pawn, [ask(SHORT.format(number=5)), ask(long), ask(SHORT.format(number=6))]
    )
    assert (
        found[1].text,
        found[1].rollout.tokens,
        found[1].rollout.finish_reason,
        found[1].rollout.logprob,
    ) == ("", (), "length", 0.0)
    assert found[0].text and found[2].text and len(received) == 3


def test_a_text_ends_where_the_context_does(pawn: "Base") -> None:
    context = pawn.model.config.max_position_embeddings
    text = SHORT.format(number=1)
    while len(pawn.encode(Prompt(">>input\n3\n" + text))) < context - 3:
        text = ">>input\n3\n" + text
    room = context - len(pawn.encode(Prompt(text)))
    (one,), _ = written(pawn, [ask(text, max_tokens=4 * room)])
    assert 0 < len(one.rollout.tokens) <= room


def test_a_stop_text_ends_a_reply_however_it_is_written(pawn: "Base") -> None:
    """A new line is a token of its own, but also the end of others: a reply ends at either."""
    tokens, texts = pawn.stops(["\n", ">>end"])
    assert texts == ("\n",) and len(tokens) == 2  # no other token has the end in it
    prompt = Prompt(SHORT.format(number=4).removesuffix(">>answer\n") + ">>think\n", None, ("\n",))
    found, _ = written(pawn, [TextRequest(0, prompt, 40, seed) for seed in range(12)])
    assert all(
        one.text.count("\n") == (one.rollout.finish_reason == "stop")
        and one.text.find("\n") in (-1, len(one.text) - 1)
        for one in found
    )
    assert any(one.rollout.finish_reason == "stop" for one in found)
