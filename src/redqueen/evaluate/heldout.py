"""Pawn's held-out suites: greedy answers, graded in the sandbox, accuracy by kind and tier."""

from collections import defaultdict
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
"""Room for an answer, thought included: more than any answer of the suite takes."""


def attempt_items(items: Sequence[Item], subject: Subject, sandbox: Sandbox) -> list[Attempt]:
    """One greedy attempt at each item, in order."""
    problems = [item.problem for item in items]
    prompts = [answer_prompt(problem, KINDS[problem.kind], subject.pack) for problem in problems]
    replies = subject.replies(prompts, [MAX_TOKENS[problem.kind] for problem in problems])
    return grade(list(zip(problems, replies, strict=True)), dict(KINDS), subject.pack, sandbox, VerifyConfig())


def by_kind_and_tier(items: Sequence[Item], attempts: Sequence[Attempt]) -> dict[str, dict[int, Accuracy]]:
    verdicts: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for item, attempt in zip(items, attempts, strict=True):
        verdicts[item.problem.kind, item.tier].append(attempt.verdict == "right")
    table: dict[str, dict[int, Accuracy]] = {kind: {} for kind in KINDS}
    for (kind, tier), right in sorted(verdicts.items()):
        table[kind][tier] = Accuracy(sum(right), len(right))
    return table
