"""Members of a run on a frozen suite, all in one engine call, and what they gained over the base, item by item."""

from collections.abc import Sequence
from typing import Any

from redqueen.evaluate.heldout import MAX_TOKENS
from redqueen.pawn.heldout import Item
from redqueen.sandbox import Sandbox
from redqueen.scribe import Ask, ModelScribe
from redqueen.solve import answer_prompt, grade
from redqueen.tasks import KINDS
from redqueen.tasks.prompts import PromptPack
from redqueen.verify import VerifyConfig

Verdicts = dict[str, list[bool]]
"""By member, or `base`: right or wrong, item by item."""


Asked = tuple[int, str, int]
"""A world, a member of it, and its slot."""


def answer(scribe: ModelScribe, pack: PromptPack, slots: Sequence[int], items: Sequence[Item], sandbox: Sandbox) -> list[list[bool]]:
    """Greedy answers of the members in these slots: right or wrong, slot by slot, item by item."""
    problems = [item.problem for item in items]
    prompts = [answer_prompt(problem, KINDS[problem.kind], pack) for problem in problems]
    asks = [Ask(slot, prompt, MAX_TOKENS[problem.kind], 0) for slot in slots for prompt, problem in zip(prompts, problems, strict=True)]
    answers = [(problem, written.text) for problem, written in zip(problems * len(slots), scribe.write(asks, 0.0), strict=True)]
    right = [attempt.verdict == "right" for attempt in grade(answers, dict(KINDS), pack, sandbox, VerifyConfig())]
    return [right[number * len(items) : (number + 1) * len(items)] for number in range(len(slots))]


def mean_over(verdicts: Sequence[Sequence[bool]]) -> list[float]:
    """The share of members that have each item right."""
    return [sum(column) / len(column) for column in zip(*verdicts, strict=True)]


def eval_rows(world: int, step: int, suite: str, verdicts: Verdicts, items: Sequence[Item]) -> list[dict[str, Any]]:
    """The verdicts as rows of the ledger."""
    return [
        {
            "world": world,
            "step": step,
            "suite": suite,
            "subject": subject,
            "item": f"{number:04d}",
            "kind": item.problem.kind,
            "tier": item.tier,
            "sample": 0,
            "correct": int(right),
        }
        for subject, answers in verdicts.items()
        for number, (item, right) in enumerate(zip(items, answers, strict=True))
    ]
