"""Texts and what the sandbox makes of them: by number, and one verdict for equal answers to one
question."""

from redqueen.core.step import Answer, Tools, _written
from redqueen.engine.text_sampler import TextRequest
from redqueen.tasks import KINDS
from redqueen.tasks.prompts import Prompt
from redqueen.tasks.prompts.compact import CompactFormat
from tests.scripted import CountingEngine, ScriptedSampler, TrustingSandbox


def test_a_text_that_answers_a_question_a_second_time_is_not_worked_on_again() -> None:
    sampler = ScriptedSampler({0: lambda prompt, draw: prompt})
    tools = Tools(sampler, CountingEngine(1), TrustingSandbox(), dict(KINDS), CompactFormat())
    worked: list[Answer] = []

    def work(some: list[Answer]) -> list[str]:
        worked.extend(some)
        return [f"{question}: {text.upper()}" for question, text in some]

    texts, questions = ["yes", "no", "yes", "yes", "no"] * 40, [0, 0, 0, 1, 1] * 40
    asks = [TextRequest(0, Prompt(text), 8, number) for number, text in enumerate(texts)]
    with tools.thread:
        written, found = _written(tools, "solve", asks, questions, 1.0, work, [])
    assert [one.text for one in written] == texts
    assert found == [
        f"{question}: {text.upper()}" for question, text in zip(questions, texts, strict=True)
    ]
    assert sorted(worked) == [(0, "no"), (0, "yes"), (1, "no"), (1, "yes")]
