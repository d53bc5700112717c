"""Sampling from a bare base: a greedy completion does not depend on the rest of the batch; stop
tokens, stop texts and limits end it."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
import torch

from redqueen.engine.protocol import Completion, SampleRequest, SamplingParams
from redqueen.engine.torch.engine import TorchEngine
from redqueen.engine.torch.stop_texts import StopTexts
from redqueen.models.base import Base
from redqueen.pawn.heldout import load_suite
from redqueen.tasks.code import KINDS
from redqueen.tasks.prompts import load_prompt_format


@pytest.fixture(scope="module")
def prompts(pawn: Base) -> list[tuple[int, ...]]:
    """Questions of all kinds and tiers."""
    problems = [item.problem for item in load_suite("heldout-quick")[::25]]
    prompt_format = load_prompt_format("compact")
    return [
        pawn.encode(prompt_format.render(KINDS[problem.kind].ask_answer(problem)))
        for problem in problems
    ]


def greedy(pawn: Base, *stop_texts: str) -> SamplingParams:
    return SamplingParams(temperature=0, stop_tokens=pawn.stops(())[0], stop_texts=stop_texts)


@pytest.mark.slow
def test_a_greedy_completion_is_the_same_alone_and_among_others(
    pawn: Base, prompts: list[tuple[int, ...]]
) -> None:
    rows = [SampleRequest(prompt, max_tokens=40) for prompt in prompts]
    among_others = TorchEngine(pawn).sample(rows, greedy(pawn))
    assert [TorchEngine(pawn).sample([row], greedy(pawn))[0].tokens for row in rows] == [
        completion.tokens for completion in among_others
    ]
    backwards = TorchEngine(pawn).sample(rows[::-1], greedy(pawn))
    assert [completion.tokens for completion in backwards[::-1]] == [
        completion.tokens for completion in among_others
    ]


def test_a_row_ends_with_its_stop_token_or_at_its_own_limit(
    pawn: Base, prompts: list[tuple[int, ...]]
) -> None:
    rows = [
        SampleRequest(prompt, max_tokens=4 + 12 * number) for number, prompt in enumerate(prompts)
    ]
    stops = pawn.stops(())[0]
    found = TorchEngine(pawn).sample(rows, greedy(pawn))
    for row, completion in zip(rows, found, strict=True):
        assert not stops & set(completion.tokens[:-1])
        if completion.finish_reason == "stop":
            assert completion.tokens[-1] in stops
            assert len(completion.tokens) <= row.max_tokens
        else:
            assert len(completion.tokens) == row.max_tokens
    assert {completion.finish_reason for completion in found} == {"stop", "length"}


def test_without_stops_every_row_writes_to_its_limit(
    pawn: Base, prompts: list[tuple[int, ...]]
) -> None:
    rows = [SampleRequest(prompt, max_tokens=1 + number) for number, prompt in enumerate(prompts)]
    assert [
        len(completion.tokens)
        for completion in TorchEngine(pawn).sample(rows, SamplingParams(temperature=0))
    ] == [row.max_tokens for row in rows]


def test_a_row_ends_where_it_has_written_a_stop_text(
    pawn: Base, prompts: list[tuple[int, ...]]
) -> None:
    rows = [SampleRequest(prompt, max_tokens=40) for prompt in prompts]
    text = ">>output\n"  # two tokens
    assert pawn.stops([text])[1] == (text,)
    plain = [
        pawn.decode(list(completion.tokens))
        for completion in TorchEngine(pawn).sample(rows, greedy(pawn))
    ]
    stopped = TorchEngine(pawn).sample(rows, greedy(pawn, text))
    assert any(text in whole for whole in plain)
    for whole, completion in zip(plain, stopped, strict=True):
        before, found, _ = whole.partition(text)
        assert pawn.decode(list(completion.tokens)).startswith(before + found)
        if found:
            assert completion.finish_reason == "stop"
            assert pawn.decode(list(completion.tokens[:-1])).count(text) == 0


@pytest.mark.parametrize("text", ["1]", "n x", "(", "ret", "\n\n", "é"])
def test_looking_at_few_rows_for_a_stop_text_finds_the_same(
    pawn: Base, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, steps = Random(5), 4
    lines = [item.problem.payload.program for item in load_suite("heldout-quick")[:40]]
    rows = [pawn.tokenizer(line)["input_ids"] for line in lines]
    rows += [[rng.randrange(len(pawn.tokenizer)) for _ in range(40)] for _ in lines]
    table = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for number, row in enumerate(rows):
        table[number, : len(row)] = torch.tensor(row)
    decoded = list[int]()
    decode = Base.decode
    monkeypatch.setattr(Base, "decode", lambda self, ids: decoded.append(0) or decode(self, ids))  # type: ignore[func-returns-value]
    few, all_rows = StopTexts(pawn, [text], steps), StopTexts(pawn, [text], steps)
    all_rows.ends = None
    found, looked = [], []
    for stop in (few, all_rows):
        decoded.clear()
        cuts: dict[int, int] = {}
        for done in range(steps + 1, table.shape[1] + steps, steps):
            left = np.array([n for n in range(len(rows)) if n not in cuts])
            counts = np.array([min(done, len(rows[n])) for n in left])
            cuts |= stop.find(table, left, counts)
        found.append(cuts)
        looked.append(len(decoded))
    assert found[0] == found[1]
    for number, row in enumerate(rows):
        assert (text in decode(pawn, row)) == (number in found[0])
        if number in found[0]:
            cut = found[0][number]
            assert text in decode(pawn, row[:cut]) and text not in decode(pawn, row[: cut - 1])
    if few.ends is not None:
        assert looked[0] < looked[1]


def test_every_row_is_told_once_when_it_ends(pawn: Base, prompts: list[tuple[int, ...]]) -> None:
    told: dict[int, Completion] = {}

    def ended(some: Sequence[tuple[int, Completion]]) -> None:
        for number, completion in some:
            assert number not in told
            told[number] = completion

    found = TorchEngine(pawn).sample(
        [SampleRequest(prompt, max_tokens=20) for prompt in prompts], greedy(pawn), ended
    )
    assert told == dict(enumerate(found))


def test_no_rows_give_no_completions(pawn: Base) -> None:
    assert TorchEngine(pawn).sample([], SamplingParams()) == []
