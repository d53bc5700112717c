"""Pawn's held-out suites: greedy answers, graded in the sandbox, accuracy by kind and tier."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from redqueen.evaluate.intervals import Accuracy
from redqueen.evaluate.subject import Subject
from redqueen.pawn.heldout import Item
from redqueen.records import Attempt
from redqueen.sandbox import Sandbox
from redqueen.solve import answer_prompt, grade
from redqueen.tasks import KINDS
from redqueen.verify import VerifyConfig

MAX_TOKENS = {"code_o": 400, "code_i": 100, "code_f": 250}
"""Room for an answer, thought included: more than any answer by Pawn takes."""


def spread(items: Sequence[Item], limit: int | None) -> Sequence[Item]:
    """So many of the items, as evenly over kinds and tiers as they can be."""
    if limit is None or limit >= len(items):
        return items
    rounds: dict[int, list[int]] = defaultdict(list)  # the first items of all kinds and tiers, then the second ones, ...
    seen: Counter[tuple[str, int]] = Counter()
    for number, item in enumerate(items):
        cell = item.problem.kind, item.tier
        rounds[seen[cell]].append(number)
        seen[cell] += 1
    chosen: list[int] = []
    for numbers in rounds.values():
        room = min(limit - len(chosen), len(numbers))
        chosen += [numbers[place * len(numbers) // room] for place in range(room)]
    return [items[number] for number in sorted(chosen)]


def attempt_items(items: Sequence[Item], subject: Subject, sandbox: Sandbox, max_tokens: int | None = None) -> list[Attempt]:
    """One greedy attempt at each item, in order."""
    problems = [item.problem for item in items]
    prompts = [answer_prompt(problem, KINDS[problem.kind], subject.pack) for problem in problems]
    replies = subject.replies(prompts, [max_tokens or MAX_TOKENS[problem.kind] for problem in problems])
    return grade(list(zip(problems, replies, strict=True)), dict(KINDS), subject.pack, sandbox, VerifyConfig())


def by_kind_and_tier(items: Sequence[Item], attempts: Sequence[Attempt]) -> dict[str, dict[int, Accuracy]]:
    verdicts: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for item, attempt in zip(items, attempts, strict=True):
        verdicts[item.problem.kind, item.tier].append(attempt.verdict == "right")
    table: dict[str, dict[int, Accuracy]] = {kind: {} for kind in KINDS}
    for (kind, tier), right in sorted(verdicts.items()):
        table[kind][tier] = Accuracy(sum(right), len(right))
    return table
