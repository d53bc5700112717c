"""The propose stage: what a teacher is asked. (The asking itself needs an engine, and is not here yet.)"""

from collections.abc import Sequence

from pydantic import Field

from redqueen.records import Problem
from redqueen.section import Section
from redqueen.tasks import TaskKind
from redqueen.tasks.prompts import Prompt, PromptPack


class ProposeConfig(Section):
    max_prompt_chars: int = Field(default=16_000, gt=0)
    """Longest proposal prompt; references are left out until it fits, so that one long problem cannot stop a run."""


def proposal_prompt(kind: TaskKind, references: Sequence[Problem], pack: PromptPack, config: ProposeConfig) -> tuple[Prompt, tuple[Problem, ...]]:
    """The prompt, and the references it shows: the longest ones are left out first where all do not fit."""
    shown = list(references[: kind.reference_count])
    while True:
        prompt = pack.render(kind.ask_proposal(shown))
        if len(prompt.text) <= config.max_prompt_chars or len(shown) <= 1:
            return prompt, tuple(shown)
        shown.remove(max(shown, key=lambda problem: len(problem.program)))
