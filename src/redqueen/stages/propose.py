"""The propose stage: what teachers are asked. Each writes several problems for one prompt, so that
they can be compared with each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from redqueen.config.section import Section
from redqueen.core.archive import Archive
from redqueen.records import Pairing, Problem
from redqueen.rng import seed_for, stream
from redqueen.tasks import TaskKind
from redqueen.tasks.prompts import Prompt, PromptPack


class ProposeConfig(Section):
    prompts: int = Field(default=2, ge=1)
    """Different prompts for each teacher and task kind in a step."""
    samples: int = Field(default=4, ge=1)
    """Proposals drawn from each prompt. With one alone there is nothing to compare it with, and all
    of a kind are compared instead."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature of teachers."""
    max_tokens: int = Field(default=1024, ge=1)
    """Most tokens of a proposal."""
    max_prompt_chars: int = Field(default=16_000, gt=0)
    """Longest question to a teacher; references are left out until it fits, so that one long
    problem cannot stop a run. What the chat pack puts before it, a system text and a worked
    example, is not counted."""


@dataclass(frozen=True, slots=True)
class Request:
    """One proposal that is asked for."""

    pairing: int
    kind: str
    prompt_number: int
    prompt: Prompt
    references: tuple[Problem, ...]
    seed: int


def requests(
    pairings: Sequence[Pairing],
    archive: Archive,
    kinds: dict[str, TaskKind],
    pack: PromptPack,
    config: ProposeConfig,
    seed: int,
    step: int,
    rarity: float = 0.0,
) -> list[Request]:
    """What the teachers are asked in this step, each from a random stream of its own."""
    found: list[Request] = []
    numbers = iter(range(len(pairings) * len(kinds) * config.prompts))
    for place, pairing in enumerate(pairings):
        for name, kind in kinds.items():
            for turn in range(config.prompts):
                path = (step, "propose", pairing.teacher.id, pairing.student.id, name, turn)
                draw = stream(seed, *path)
                count = draw.randint(min(1, kind.reference_count), kind.reference_count)
                references = archive.sample(count, draw, (name, *kind.reference_kinds), rarity)
                prompt, shown = proposal_prompt(kind, references, pack, config)
                number = next(numbers)
                found += [
                    Request(place, name, number, prompt, shown, seed_for(seed, *path, sample))
                    for sample in range(config.samples)
                ]
    return found


def proposal_prompt(
    kind: TaskKind, references: Sequence[Problem], pack: PromptPack, config: ProposeConfig
) -> tuple[Prompt, tuple[Problem, ...]]:
    """The prompt, and the references it shows: the longest ones are left out first where all do not
    fit."""
    shown = list(references[: kind.reference_count])
    while True:
        prompt = pack.render(kind.ask_proposal(shown))
        if len(prompt.text) <= config.max_prompt_chars or len(shown) <= 1:
            return prompt, tuple(shown)
        shown.remove(max(shown, key=lambda problem: len(problem.program)))
