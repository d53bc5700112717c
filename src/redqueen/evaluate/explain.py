"""Why did it answer so? Reasoning against execution, where the way to the answer is known.

**Agreement.** Every model answers with reasoning. How often does it agree with what the program
does, where does it first depart, and what does that cost?

**Faithfulness.** A model is given the beginning of a correct reasoning with its last line changed,
and goes on from there. Sandboxed execution with that one value changed says which answer the
reasoning now leads to. Who follows it answers by its reasoning; who still gives the gold answer
does not need it. Only changes that lead to another answer count. Beside it, the same beginning
without a change.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from redqueen.benchmarks.suite import Item
from redqueen.config.stages import VerifyConfig
from redqueen.engine.text_sampler import TextRequest
from redqueen.errors import ConfigError
from redqueen.evaluate.replies import FORCED, Model
from redqueen.evaluate.targets import Target
from redqueen.records import Attempt, Problem
from redqueen.rng import seed_for, stream
from redqueen.sandbox import Job, Outcome, Sandbox
from redqueen.stages.solve import grade_answers
from redqueen.tasks import Malformed, load_kind, load_kinds
from redqueen.tasks.explain import Altered, Explains
from redqueen.tasks.prompts import PromptFormat, reasoning_of

OnProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Explained:
    """What was found of one model. Shares are None where nothing was there to count."""

    model: str
    problems: int
    correct: float | None
    agrees: float | None
    """Share of answers whose reasoning never contradicts execution."""
    correct_if_agrees: float | None
    correct_if_departs: float | None
    departs_at: float | None
    """Where reasoning first departs: mean share of its lines before."""
    probes: int
    """Changes that lead to another answer."""
    follows: float | None
    """Share of these where the answer is the one that the changed reasoning leads to."""
    ignores: float | None
    """Share of these where it is still the gold answer."""
    control: float | None
    """Share of gold answers after the same beginning without a change."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Traced:
    """A problem, how it is solved, and what an altered beginning leads to."""

    problem: Problem
    max_tokens: int
    outcome: Outcome
    altered: Altered | None = None
    other: str = ""


def explain(
    target: Target,
    items: Sequence[Item],
    sandbox: Sandbox,
    max_tokens: int = 1024,
    on_progress: OnProgress = lambda text: None,
) -> list[Explained]:
    """Every model of a target, greedily, on the items whose kind has a trace."""
    traced = _trace(items, sandbox, max_tokens)
    if not traced:
        raise ConfigError(
            "no item of this suite has a trace to compare with: try a suite of programs, "
            "such as heldout-quick"
        )
    target = target.without(FORCED)  # all reason here
    on_progress(f"{len(target.models)} models on {len(traced)} problems")
    answers = _ask(target, [(one, "") for one in traced], sandbox)
    probed = [one for one in traced if one.altered is not None]
    on_progress(f"{len(target.models)} models on {len(probed)} altered beginnings")
    controls = _ask(target, [(one, one.altered.true) for one in probed if one.altered], sandbox)
    changed = _ask(target, [(one, one.altered.changed) for one in probed if one.altered], sandbox)
    return [
        _summarize(
            model,
            target.prompt_format,
            traced,
            answers[model.name],
            probed,
            controls[model.name],
            changed[model.name],
        )
        for model in target.models
    ]


def trace_problems(problems: Sequence[Problem], sandbox: Sandbox) -> list[Outcome | None]:
    """The outcome of each problem's trace; None where it has none."""
    jobs = [load_kind(problem.kind).trace(problem) for problem in problems]
    outcomes = _run(jobs, sandbox)
    return [None if job is None else outcomes[job] for job in jobs]


def _run(jobs: Sequence[Job | None], sandbox: Sandbox) -> dict[Job, Outcome]:
    different = list(dict.fromkeys(job for job in jobs if job is not None))
    return dict(zip(different, sandbox.run(different), strict=True))


def _trace(items: Sequence[Item], sandbox: Sandbox, max_tokens: int) -> list[_Traced]:
    problems = [item.fields["problem"] for item in items if "problem" in item.fields]
    limits = [item.max_tokens or max_tokens for item in items if "problem" in item.fields]
    outcomes = trace_problems(problems, sandbox)
    traced = [
        _Traced(problem, limit, outcome)
        for problem, limit, outcome in zip(problems, limits, outcomes, strict=True)
        if outcome is not None
    ]
    altered = [_alter(one) for one in traced]
    others = _run([one.job if one else None for one in altered], sandbox)
    return [
        _with_alteration(one, change, others) for one, change in zip(traced, altered, strict=True)
    ]


def _alter(one: _Traced) -> Altered | None:
    kind = load_kind(one.problem.kind)
    rng = stream(0, "explain", one.problem.key)
    return kind.alter(one.problem, one.outcome, rng) if isinstance(kind, Explains) else None


def _with_alteration(one: _Traced, change: Altered | None, others: dict[Job, Outcome]) -> _Traced:
    """With the change, where it leads to another answer."""
    kind = load_kind(one.problem.kind)
    if change is None or not isinstance(kind, Explains):
        return one
    other = kind.altered_answer(others[change.job])
    return (
        replace(one, altered=change, other=other) if other not in ("", *one.problem.gold) else one
    )


def _ask(
    target: Target, questions: Sequence[tuple[_Traced, str]], sandbox: Sandbox
) -> dict[str, list[Attempt]]:
    """Each model's answers to every question: a problem, and how the reasoning begins."""
    prompts = target.prompt_format
    attempts: dict[str, list[Attempt]] = {}
    for batch in target.batches:
        requests = [
            TextRequest(
                model.slot,
                replace(
                    prompts.render(load_kind(one.problem.kind).ask_answer(one.problem)),
                    prefix=prompts.reasoning_prefix(one.problem.kind) + (begin and f"{begin}\n"),
                ),
                one.max_tokens,
                seed_for(0, "explain", one.problem.key, model.name),
            )
            for model in batch.models
            for one, begin in questions
        ]
        if not requests:
            continue
        texts = [done.text for done in batch.sampler.sample(requests, 0.0, lambda done: None)]
        kinds = load_kinds(*dict.fromkeys(one.problem.kind for one, _ in questions))
        problems = [one.problem for _ in batch.models for one, _ in questions]
        answers = list(zip(problems, texts, strict=True))
        graded = grade_answers(answers, kinds, prompts, sandbox, VerifyConfig())
        for number, model in enumerate(batch.models):
            start = number * len(questions)
            attempts[model.name] = graded[start : start + len(questions)]
    return {model.name: attempts.get(model.name, []) for model in target.models}


def _summarize(
    model: Model,
    prompts: PromptFormat,
    traced: Sequence[_Traced],
    answers: Sequence[Attempt],
    probed: Sequence[_Traced],
    controls: Sequence[Attempt],
    changed: Sequence[Attempt],
) -> Explained:
    lines = [_departure(one, attempt.text) for one, attempt in zip(traced, answers, strict=True)]
    right = [attempt.verdict == "correct" for attempt in answers]
    departures = [line for line in lines if line is not None]
    follows = [
        _answer(attempt, prompts) == one.other for one, attempt in zip(probed, changed, strict=True)
    ]
    return Explained(
        model.name,
        len(traced),
        _share(right),
        _share(line is None for line in lines),
        _share(ok for ok, line in zip(right, lines, strict=True) if line is None),
        _share(ok for ok, line in zip(right, lines, strict=True) if line is not None),
        fmean(departures) if departures else None,
        len(probed),
        _share(follows),
        _share(attempt.verdict == "correct" for attempt in changed),
        _share(attempt.verdict == "correct" for attempt in controls),
    )


def _departure(one: _Traced, text: str) -> float | None:
    """How far into the reasoning it first contradicts execution, from 0 to 1; None: nowhere."""
    reasoning = reasoning_of(text)
    kind = load_kind(one.problem.kind)
    line = kind.first_wrong_line(one.problem, reasoning, one.outcome)
    return None if line is None else (line - 1) / max(1, len(reasoning.splitlines()))


def _answer(attempt: Attempt, prompts: PromptFormat) -> str:
    """In normal spelling; empty where there is none."""
    kind = load_kind(attempt.problem.kind)
    try:
        return kind.read_answer(prompts.parse(attempt.text, kind.answer_blocks))
    except Malformed:
        return ""


def _share(values: Iterable[bool]) -> float | None:
    counted = list(values)
    return fmean(counted) if counted else None
