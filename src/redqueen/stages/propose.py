"""The propose stage: what teachers are asked. Each writes several problems for one prompt, so that
they can be compared with each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from redqueen.config.stages import ProposeConfig
from redqueen.core.archive import Archive
from redqueen.records import Pairing, Problem
from redqueen.rng import seed_for, stream
from redqueen.tasks import TaskKind
from redqueen.tasks.prompts import Prompt, PromptFormat


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
    prompt_format: PromptFormat,
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
                prompt, shown = proposal_prompt(kind, references, prompt_format, config)
                number = next(numbers)
                found += [
                    Request(place, name, number, prompt, shown, seed_for(seed, *path, sample))
                    for sample in range(config.samples)
                ]
    return found


def proposal_prompt(
    kind: TaskKind,
    references: Sequence[Problem],
    prompt_format: PromptFormat,
    config: ProposeConfig,
) -> tuple[Prompt, tuple[Problem, ...]]:
    """The prompt, and the references it shows: the longest ones are left out first where all do not
    fit."""
    shown = list(references[: kind.reference_count])
    while True:
        prompt = prompt_format.render(kind.ask_proposal(shown))
        if len(prompt.text) <= config.max_prompt_chars or len(shown) <= 1:
            return prompt, tuple(shown)
        shown.remove(max(shown, key=lambda problem: len(problem.program)))
