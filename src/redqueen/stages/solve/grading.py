"""Grades answers: what a student wrote becomes an attempt with a verdict."""

from collections.abc import Mapping, Sequence

from redqueen.config.stages import VerifyConfig
from redqueen.records import Attempt, Problem
from redqueen.sandbox import Sandbox
from redqueen.tasks import Malformed, RunRules, TaskKind, Void
from redqueen.tasks.prompts import PromptFormat


def grade_answers(
    answers: Sequence[tuple[Problem, str]],
    kinds: Mapping[str, TaskKind],
    prompt_format: PromptFormat,
    sandbox: Sandbox,
    config: VerifyConfig,
) -> list[Attempt]:
    """One attempt for each (problem, text as the model wrote it), in order. All that must be
    executed goes to the sandbox at once; what several answers come to is executed once."""
    rules = RunRules.of(config)
    read = [_read(text, kinds[problem.kind], prompt_format) for problem, text in answers]
    jobs = [
        None
        if isinstance(answer, Malformed)
        else kinds[problem.kind].grading(problem, answer, rules)
        for (problem, _), answer in zip(answers, read, strict=True)
    ]
    different = list(dict.fromkeys(job for job in jobs if job is not None))
    outcomes = dict(zip(different, sandbox.run(different), strict=True))
    attempts = []
    for (problem, text), answer, job in zip(answers, read, jobs, strict=True):
        if isinstance(answer, Malformed):
            attempts.append(Attempt(problem, text, "malformed", str(answer)))
            continue
        outcome = None if job is None else outcomes[job]
        try:
            correct = kinds[problem.kind].is_correct(problem, answer, outcome)
        except Void as error:
            attempts.append(Attempt(problem, text, "voided", str(error)))
            continue
        failed = outcome is not None and outcome.kind != "value"
        detail = f"{outcome.kind} {outcome.detail}".strip() if outcome and failed else ""
        attempts.append(Attempt(problem, text, "correct" if correct else "wrong", detail))
    return attempts


def _read(text: str, kind: TaskKind, prompt_format: PromptFormat) -> str | Malformed:
    try:
        return kind.read_answer(prompt_format.parse(text, kind.answer_blocks))
    except Malformed as error:
        return error
