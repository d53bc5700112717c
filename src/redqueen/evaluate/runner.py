"""Evaluates models on a suite: samples all replies, grades them while sampling goes on, and returns
the result as a record."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from redqueen.benchmarks.maths.grader import MathsGrader
from redqueen.benchmarks.suite import Graders, Item, PromptStyle, Suite
from redqueen.config.sandbox import SandboxConfig
from redqueen.core.pipeline import Check, background_executor
from redqueen.engine.text_sampler import TextCompletion, TextRequest
from redqueen.errors import ConfigError
from redqueen.evaluate.replies import FORCED, EvalConfig, GradedReply, Model
from redqueen.evaluate.reply_cache import ReplyCache
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.styles import evaluate_in_best_style
from redqueen.evaluate.suites import load_suite
from redqueen.evaluate.summary import split
from redqueen.rng import seed_for
from redqueen.sandbox import Sandbox
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.prompts import load_prompt_format

if TYPE_CHECKING:
    from redqueen.core.run import Run
    from redqueen.evaluate.targets import Target
    from redqueen.ledger.run_reader import RunReader
    from redqueen.models.base import Dtype

log = logging.getLogger(__name__)
_CHUNK = 64
"""Replies that are graded and cached together: a kill loses at most these."""

OnProgress = Callable[[int, int], None]
"""Told how many replies are graded, of how many."""


@dataclass(frozen=True, slots=True)
class EvalTask:
    """A suite, and the items of it that are asked."""

    suite: Suite
    items: tuple[Item, ...]


def load_task(suite: str | Suite, data: Path | None = None, limit: int | None = None) -> EvalTask:
    """Raises where there is no such suite, or no data for it."""
    suite = load_suite(suite) if isinstance(suite, str) else suite
    return EvalTask(suite, tuple(suite.items(data, limit)))


@contextmanager
def open_graders(sandbox: Sandbox | None = None, *, unsafe: bool = False) -> Iterator[Graders]:
    """Graders with this sandbox, or one of their own."""
    with ExitStack() as stack:
        if sandbox is None:
            sandbox = stack.enter_context(SandboxPool(SandboxConfig(unsafe=unsafe)))
        maths = MathsGrader(sandbox=SandboxConfig(unsafe=unsafe))
        yield Graders(sandbox, stack.enter_context(maths))


def evaluate(
    target: "Run | RunReader | Target | str | Path",
    suite: str | Suite | EvalTask,
    *,
    members: Sequence[str] = (),
    world: int | None = None,
    base: str | None = None,
    data: Path | None = None,
    limit: int | None = None,
    samples: int = 1,
    temperature: float | None = None,
    max_tokens: int | None = None,
    style: Literal["chat", "base", "best"] | None = None,
    prompt_format: str | None = None,
    reasoning: Literal["free", "forced"] = "free",
    device: str = "auto",
    dtype: "Dtype" = "auto",
    cache: Path | None = None,
    graders: Graders | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> EvalResult:
    """Score models on a suite, and compare them with their base on the same items.

    - `target`: a live run, a run folder or a reader of one, a member (`RUN/S2`), what a run hands
      over (`RUN/soup`, `RUN/chosen`, `RUN/vote`, `RUN/router`), an adapter's folder, or a base. A
      live run is measured as it is; nothing is written to its ledger.
    - `suite`: a name, an import path, a JSONL file, or a suite of your own.
    - `members`: which members of a run; by default all living ones and the soup.
    - `world`: which world of a study.
    - `base`: where the base is now, if it moved.
    - `data`: a folder of benchmark files; else `REDQUEEN_DATA`, else the hub.
    - `limit`: only so many items: the first of a benchmark, spread over Pawn's suites.
    - `samples`: replies to each item; with several there is a pass@k.
    - `temperature`: 0 (greedy) for one sample and 0.8 for several, unless given.
    - `max_tokens`: of a reply; by default what the suite sets.
    - `style`: `chat` or `base`; by default what suits the base. `best` tries both with the base on
      the first items, and scores the other items in the better one.
    - `prompt_format`: of problems of task kinds; by default what the base understands.
    - `reasoning`: `forced` begins every reply with reasoning: what a base can do that only has to
      be asked.
    - `device`: auto, cpu, cuda or cuda:1.
    - `dtype`: of the base; auto is bfloat16 on a GPU, else float32.
    - `cache`: a file of graded replies, reused by the next call.
    - `graders`: a sandbox and maths workers that are open already.
    - `on_progress`: called with the number of graded replies, and of all.
    """
    from redqueen.evaluate.targets import Target, open_target

    task = suite if isinstance(suite, EvalTask) else load_task(suite, data, limit)
    if max_tokens is not None:
        items = tuple(replace(item, max_tokens=max_tokens) for item in task.items)
        task = EvalTask(task.suite, items)
    with ExitStack() as stack:
        if not isinstance(target, Target):
            target = open_target(target, members, world, base=base, device=device, dtype=dtype)
            stack.callback(target.close)
        if style == "best":
            given = {
                "samples": samples,
                "temperature": temperature,
                "max_tokens": max_tokens,
                "prompt_format": prompt_format,
                "reasoning": reasoning,
                "cache": cache,
                "graders": graders,
                "on_progress": on_progress,
            }
            return evaluate_in_best_style(
                target, task, lambda *what, **how: evaluate(*what, **{**given, **how})
            )
        prompt_style = PromptStyle(
            target.is_chat if style is None else style == "chat",
            load_prompt_format(prompt_format) if prompt_format else target.prompt_format,
        )
        if target.votes:
            target, samples = _with_votes(target, samples)
        if reasoning == "forced" or not _can_reason(task, prompt_style):
            target = target.without(FORCED)
        config = make_config(task.suite, target, prompt_style, samples, temperature, max_tokens)
        config = replace(config, reasoning=reasoning)
        if graders is None:
            graders = stack.enter_context(open_graders(target.sandbox, unsafe=target.unsafe))
        replies = _sample_and_grade(
            task, target, config, prompt_style, graders, ReplyCache(cache), on_progress
        )
    return EvalResult(
        target.name,
        task.items,
        config,
        target.models,
        tuple(replies),
        task.suite.note,
        target.run,
        target.step,
    )


def _can_reason(task: EvalTask, style: PromptStyle) -> bool:
    """Whether there is a way to begin the reply to some item with reasoning."""
    kinds = {item.kind for item in task.items if item.kind}
    return any(style.prompt_format.reasoning_prefix(kind) for kind in kinds)


def _with_votes(target: "Target", samples: int) -> "tuple[Target, int]":
    """The votes, split between the students of a world; the base has as many."""
    students = max(model.students for model in target.models)
    count = max(samples, students)
    if count < 2:
        raise ConfigError("the vote of one student needs two votes or more: --samples")
    shares: dict[int, list[int]] = {}

    def share(model: Model) -> Model:
        if not model.is_solver:
            return model
        left = shares.setdefault(model.world, split(count, model.students))
        return replace(model, samples=left.pop(0))

    return target.with_models(share), count


def make_config(
    suite: Suite,
    target: "Target",
    style: PromptStyle,
    samples: int,
    temperature: float | None,
    max_tokens: int | None,
) -> EvalConfig:
    if samples > 1 and temperature == 0:
        raise ConfigError(
            f"{samples} samples at temperature 0 would be the same reply {samples} times: "
            "set a temperature, such as 0.8"
        )
    if temperature is None:
        temperature = 0.0 if samples == 1 else 0.8
    return EvalConfig(
        suite.name,
        suite.prompt_version(style),
        style.name,
        samples,
        temperature,
        max_tokens or suite.max_tokens,
        target.base.dtype,
        target.provenance,
    )


@dataclass(frozen=True, slots=True)
class _Question:
    model: Model
    item: Item
    sample: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.item.id, self.model.name, self.sample


def _sample_and_grade(
    task: EvalTask,
    target: "Target",
    config: EvalConfig,
    style: PromptStyle,
    graders: Graders,
    cache: ReplyCache,
    on_progress: OnProgress,
) -> list[GradedReply]:
    """The replies of every model to every item. What the cache has is not sampled again."""
    graded = cache.read(config)
    questions = [
        [
            _Question(model, item, sample)
            for model in batch.models
            for item in task.items
            for sample in range(model.samples or config.samples)
        ]
        for batch in target.batches
    ]
    all_questions = [question for batch in questions for question in batch]
    done = sum(question.key in graded for question in all_questions)
    if done:  # they count as they were graded, by whoever wrote the file
        log.info("%d of %d replies are taken from %s", done, len(all_questions), cache.path)
    on_progress(done, len(all_questions))

    def grade(completions: list[TextCompletion]) -> None:
        nonlocal done
        for start in range(0, len(completions), _CHUNK):
            replies = _grade(task.suite, completions[start : start + _CHUNK], style, graders)
            cache.append(config, replies)
            graded.update({(reply.item, reply.model, reply.sample): reply for reply in replies})
            done += len(replies)
            on_progress(done, len(all_questions))

    def receive(completions: Sequence[TextCompletion]) -> None:
        grading.raise_failure()
        grading.add(completions)

    with background_executor(on_gpu=target.base.on_gpu) as background:
        grading = Check(background, grade)
        for batch, of_batch in zip(target.batches, questions, strict=True):
            requests = [
                _request(task.suite, question, config, style)
                for question in of_batch
                if question.key not in graded
            ]
            if requests:
                batch.sampler.sample(requests, config.temperature, receive)
        grading.finish()
    return [graded[question.key] for question in all_questions]


def _request(
    suite: Suite, question: _Question, config: EvalConfig, style: PromptStyle
) -> TextRequest:
    """Models have random streams of their own: with a common one their answers would agree more
    than their weights do. The base samples as it would alone."""
    item, model = question.item, question.model
    own = () if model.is_base else (model.name,)
    seed = seed_for(0, "benchmark", config.suite, item.id, question.sample, *own)
    limit = item.max_tokens or config.max_tokens
    prompt = suite.prompt(item, style)
    if item.kind and (model.forced or config.reasoning == "forced"):
        prompt = replace(prompt, prefix=style.prompt_format.reasoning_prefix(item.kind))
    return TextRequest(model.slot_for(item.kind), prompt, limit, seed, item=question)


def _grade(
    suite: Suite, completions: Sequence[TextCompletion], style: PromptStyle, graders: Graders
) -> list[GradedReply]:
    questions: list[_Question] = [completion.request.item for completion in completions]
    items = [question.item for question in questions]
    verdicts = suite.grade(items, [completion.text for completion in completions], style, graders)
    prefixes = {
        item.kind: style.prompt_format.reasoning_prefix(item.kind).strip() if item.kind else ""
        for item in items
    }
    return [
        GradedReply(
            question.item.id,
            question.model.name,
            question.sample,
            completion.text,
            verdict.correct,
            verdict.reason,
            completion.rollout.finish_reason == "length",
            suite.vote_key(question.item, completion.text, style),
            completion.text.lstrip().startswith(prefix)
            if (prefix := prefixes[question.item.kind])
            else None,
        )
        for question, completion, verdict in zip(questions, completions, verdicts, strict=True)
    ]
