"""Members of a run on a frozen suite, all in one engine call, and what they gained over the base, item by item."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.engine import Row, Sampling
from redqueen.engine.torch_engine import TorchEngine
from redqueen.evaluate.heldout import MAX_TOKENS
from redqueen.model.base import Base
from redqueen.pawn.heldout import Item
from redqueen.sandbox import Sandbox
from redqueen.solve import answer_prompt, grade
from redqueen.tasks import KINDS
from redqueen.tasks.prompts import PromptPack
from redqueen.verify import VerifyConfig

_Z95 = 1.959964

Verdicts = dict[str, list[bool]]
"""By member, or `base`: right or wrong, item by item."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean over items of (subject - base), with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} points [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


Asked = tuple[int, str, int]
"""A world, a member of it, and its slot."""


def answer(engine: TorchEngine, base: Base, pack: PromptPack, slots: Sequence[int], items: Sequence[Item], sandbox: Sandbox) -> list[list[bool]]:
    """Greedy answers of the members in these slots: right or wrong, slot by slot, item by item."""
    problems = [item.problem for item in items]
    prompts = [answer_prompt(problem, KINDS[problem.kind], pack) for problem in problems]
    ids = [tuple(base.encode(prompt)) for prompt in prompts]
    rows = [Row(prompt, MAX_TOKENS[problem.kind], slot) for slot in slots for prompt, problem in zip(ids, problems, strict=True)]
    stop_tokens, stop_texts = base.stops(text for prompt in prompts for text in prompt.stop)
    completions = engine.generate(rows, Sampling(0.0, stop_tokens, stop_texts))
    texts = [base.decode(list(completion.tokens)) for completion in completions]
    graded = grade(list(zip(problems * len(slots), texts, strict=True)), dict(KINDS), pack, sandbox, VerifyConfig())
    right = [attempt.verdict == "right" for attempt in graded]
    return [right[number * len(items) : (number + 1) * len(items)] for number in range(len(slots))]


def difference(subject: Sequence[float], base: Sequence[float]) -> Difference:
    """Paired by item: what both get right or wrong does not widen the interval."""
    apart = [one - other for one, other in zip(subject, base, strict=True)]
    mean = math.fsum(apart) / len(apart)
    variance = math.fsum((value - mean) ** 2 for value in apart) / max(1, len(apart) - 1)
    half = _Z95 * math.sqrt(variance / len(apart))
    return Difference(mean, mean - half, mean + half)


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
