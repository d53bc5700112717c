"""The solve stage: what a student is asked, and how its answers are graded."""

from collections.abc import Sequence

from redqueen.config.stages import VerifyConfig
from redqueen.records import Attempt, Problem
from redqueen.sandbox import Sandbox
from redqueen.tasks import Malformed, RunRules, TaskKind
from redqueen.tasks.prompts import Prompt, PromptFormat


def answer_prompt(problem: Problem, kind: TaskKind, prompt_format: PromptFormat) -> Prompt:
    return prompt_format.render(kind.ask_answer(problem))


def grade(
    answers: Sequence[tuple[Problem, str]],
    kinds: dict[str, TaskKind],
    prompt_format: PromptFormat,
    sandbox: Sandbox,
    config: VerifyConfig,
) -> list[Attempt]:
    """One attempt for each (problem, text as the model wrote it), in order. All that must be
    executed goes to the sandbox at once."""
    rules = RunRules.of(config)
    read = [_read(text, kinds[problem.kind], prompt_format) for problem, text in answers]
    jobs = [
        None
        if isinstance(answer, Malformed)
        else kinds[problem.kind].grading(problem, answer, rules)
        for (problem, _), answer in zip(answers, read, strict=True)
    ]
    outcomes = iter(sandbox.run([job for job in jobs if job is not None]))
    attempts = []
    for (problem, text), answer, job in zip(answers, read, jobs, strict=True):
        if isinstance(answer, Malformed):
            attempts.append(Attempt(problem, text, "malformed", str(answer)))
            continue
        outcome = None if job is None else next(outcomes)
        correct = kinds[problem.kind].is_right(problem, answer, outcome)
        detail = (
            ""
            if outcome is None or outcome.kind == "value"
            else f"{outcome.kind} {outcome.detail}".strip()
        )
        attempts.append(Attempt(problem, text, "correct" if correct else "wrong", detail))
    return attempts


def _read(text: str, kind: TaskKind, prompt_format: PromptFormat) -> str | Malformed:
    try:
        return kind.read_answer(prompt_format.parse(text, kind.answer_blocks))
    except Malformed as error:
        return error
