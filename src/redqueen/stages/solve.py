"""The solve stage: what a student is asked, and how its answers are graded."""

from collections.abc import Sequence

from pydantic import Field

from redqueen.config.section import Section
from redqueen.records import Attempt, Problem
from redqueen.sandbox import Sandbox
from redqueen.stages.verify import VerifyConfig
from redqueen.tasks import Malformed, TaskKind
from redqueen.tasks.prompts import Prompt, PromptPack


class SolveConfig(Section):
    attempts: int = Field(default=8, ge=2)
    """Answers drawn for each problem; their share of right ones is the problem's solve rate."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature. Never zero: greedy attempts are all alike, and the solve rate could
    only be 0 or 1."""
    max_tokens: int = Field(default=2048, ge=1)
    """Most tokens of an answer, thought included."""


def answer_prompt(problem: Problem, kind: TaskKind, pack: PromptPack) -> Prompt:
    return pack.render(kind.ask_answer(problem))


def grade(
    answers: Sequence[tuple[Problem, str]],
    kinds: dict[str, TaskKind],
    pack: PromptPack,
    sandbox: Sandbox,
    config: VerifyConfig,
) -> list[Attempt]:
    """One attempt for each (problem, text as the model wrote it), in order. All that must be
    executed goes to the sandbox at once."""
    rules = config.rules()
    read = [_read(text, kinds[problem.kind], pack) for problem, text in answers]
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
        right = kinds[problem.kind].is_right(problem, answer, outcome)
        detail = (
            ""
            if outcome is None or outcome.kind == "value"
            else f"{outcome.kind} {outcome.detail}".strip()
        )
        attempts.append(Attempt(problem, text, "right" if right else "wrong", detail))
    return attempts


def _read(text: str, kind: TaskKind, pack: PromptPack) -> str | Malformed:
    try:
        return kind.read_answer(pack.parse(text, kind.answer_blocks))
    except Malformed as error:
        return error
