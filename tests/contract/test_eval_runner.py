"""Sampling and grading a suite: graded while sampling, kept when it is killed, and with random
streams of their own for all models."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redqueen.benchmarks.cruxeval import CruxEval
from redqueen.benchmarks.maths.grader import MathsGrader
from redqueen.benchmarks.suite import Graders, Item
from redqueen.engine.protocol import BaseInfo
from redqueen.engine.text_sampler import OnText, TextCompletion, TextRequest
from redqueen.errors import ConfigError, StorageError
from redqueen.evaluate.replies import Model
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.runner import EvalTask, evaluate
from redqueen.evaluate.targets import Batch, Target
from redqueen.records import Rollout
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.prompts import load_prompt_format
from tests.contract.benchmark_items import CRUXEVAL

TASK = EvalTask(CruxEval("o"), tuple(Item(str(row["id"]), row) for row in CRUXEVAL))


class Sampler:
    """Answers every question correctly, until it is killed."""

    def __init__(self, replies: int = 1000) -> None:
        self.left = replies
        self.requests: list[TextRequest] = []

    def sample(
        self, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
    ) -> list[TextCompletion]:
        self.requests += requests
        completions = []
        for request in requests:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            output = next(
                str(row["output"])
                for row in CRUXEVAL
                if request.prompt.text.endswith(f"{row['code']}\n\n# f({row['input']}) ==")
            )
            completions.append(TextCompletion(request, output, Rollout((), (), (), "stop")))
            on_finish(completions[-1:])
        return completions


@pytest.fixture
def graders(pool: SandboxPool) -> Iterator[Graders]:
    with MathsGrader() as maths:
        yield Graders(pool, maths)


def run(
    sampler: Sampler,
    graders: Graders,
    models: Sequence[str] = ("S0", "base"),
    device: str = "cpu",
    **options: Any,
) -> EvalResult:
    batch = Batch(sampler, tuple(Model(name, slot) for slot, name in enumerate(models)))
    base = BaseInfo("pawn", "weights", 4, "float32", device, device, "compact", False, 1024)
    target = Target("run", base, (batch,), load_prompt_format("compact"), "of a test")
    return evaluate(target, TASK, graders=graders, **options)


@pytest.mark.parametrize("sampled_on", ["cuda", "cpu"])
def test_replies_from_before_a_kill_are_not_sampled_again(
    graders: Graders, tmp_path: Path, sampled_on: str
) -> None:
    cache, second = tmp_path / "attempts.jsonl", Sampler()
    with pytest.raises(KeyboardInterrupt):
        run(Sampler(5), graders, device=sampled_on, cache=cache)
    kept = len(cache.read_text().splitlines()) if cache.exists() else 0
    assert kept == 5 if sampled_on == "cpu" else kept <= 5  # on a CPU each is graded at once
    result = run(second, graders, device=sampled_on, cache=cache)
    assert len(second.requests) == 8 - kept and len(result.replies) == 8
    assert all(reply.correct and reply.vote_key for reply in result.replies)
    assert [(reply.item, reply.model) for reply in result.replies] == [
        (item.id, model) for model in ("S0", "base") for item in TASK.items
    ]
    assert (result.n, result.correct, result.score) == (4, 4.0, 1.0)


def test_models_sample_for_themselves_and_the_base_as_it_would_alone(graders: Graders) -> None:
    together, alone = Sampler(), Sampler()
    run(together, graders)
    run(alone, graders, models=["base"])
    assert len({request.seed for request in together.requests}) == 8
    of_base = [request.seed for request in together.requests if request.slot == 1]
    assert of_base == [request.seed for request in alone.requests]


def test_a_cache_that_cannot_be_written_ends_it_before_all_is_sampled(
    graders: Graders, tmp_path: Path
) -> None:
    sampler = Sampler()
    with pytest.raises(StorageError, match="cannot write"):
        run(sampler, graders, cache=tmp_path / "nowhere" / "attempts.jsonl")
    assert sampler.left > 1000 - 8


def test_progress_counts_graded_replies(graders: Graders) -> None:
    progress: list[tuple[int, int]] = []
    run(Sampler(), graders, on_progress=lambda done, total: progress.append((done, total)))
    assert progress == [(done, 8) for done in range(9)]


def test_a_result_is_rows_and_json(graders: Graders) -> None:
    result = run(Sampler(), graders)
    assert json.loads(json.dumps(result.to_json()))["against_base"]["difference"] == 0.0
    row = result.to_rows()[0]
    assert (row["suite"], row["subject"], row["correct"]) == ("cruxeval-o", "S0", 1)
    assert len(result.to_rows()) == 8 and len(result.per_item) == 4


def test_several_samples_need_a_temperature(graders: Graders) -> None:
    with pytest.raises(ConfigError, match="same reply 4 times"):
        run(Sampler(), graders, samples=4, temperature=0.0)


class Talkative(Sampler):
    """Is right where it continues a text, and wrong where it chats."""

    def sample(
        self, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
    ) -> list[TextCompletion]:
        if requests[0].prompt.system is None:
            return super().sample(requests, temperature, on_finish)
        self.requests += requests
        wrong = [
            TextCompletion(request, "well", Rollout((), (), (), "stop")) for request in requests
        ]
        on_finish(wrong)
        return wrong


def test_the_best_style_is_tried_by_the_base_on_items_that_are_not_scored(
    graders: Graders,
) -> None:
    sampler, count = Talkative(), len(TASK.items)
    batch = Batch(sampler, (Model("S0", 0), Model("base", 1)))
    base = BaseInfo("qwen", "weights", 4, "float32", "cpu", "cpu", "chat", True, 1024)
    target = Target("run", base, (batch,), load_prompt_format("chat"), "of a test")
    result = evaluate(target, TASK, graders=graders, style="best")
    assert result.config.style == "base" and result.score == 1
    assert result.trial is not None and result.trial.scores == {"chat": 0.0, "base": 1.0}
    assert result.n == count - count // 2 and result.trial.items == count // 2
    assert not {item.id for item in TASK.items[: count // 2]} & {item.id for item in result.items}
    tried = [request for request in sampler.requests if request.prompt.system is not None]
    assert {request.slot for request in tried} == {1} and len(tried) == count // 2
    assert result.to_json()["trial"]["best"] == "base"
    plain = evaluate(
        Target("run", replace(base, has_chat_template=False), (batch,), target.prompt_format, ""),
        TASK,
        graders=graders,
        style="best",
    )
    assert plain.trial is None and plain.n == count
