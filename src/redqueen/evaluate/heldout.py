"""Pawn's held-out problems as suites: problems of task kinds, prompted as in a run."""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from redqueen.benchmarks import suite
from redqueen.benchmarks.suite import CORRECT, Graders, PromptStyle, Verdict
from redqueen.config.stages import VerifyConfig
from redqueen.pawn.heldout import MAX_TOKENS, Item, load_suite, read_lines, small_problems
from redqueen.pawn.heldout_large import NAME as LARGE
from redqueen.pawn.heldout_large import load_large
from redqueen.pawn.puzzles import read_puzzle_line
from redqueen.records import Problem
from redqueen.stages.solve import grade_answers
from redqueen.tasks import Malformed, RunRules, load_kind, load_kinds
from redqueen.tasks.prompts import Prompt, PromptFormat


class ProblemSuite(ABC):
    """Problems of task kinds, prompted and graded as in a run. Items hold their `problem`."""

    max_tokens: int

    @abstractmethod
    def prompt_version(self, style: PromptStyle) -> str: ...

    @abstractmethod
    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]: ...

    def prompt(self, item: suite.Item, style: PromptStyle) -> Prompt:
        request = load_kind(item.kind).ask_answer(item.fields["problem"])
        return style.prompt_format.render(request)

    def grade(
        self,
        items: Sequence[suite.Item],
        replies: Sequence[str],
        style: PromptStyle,
        graders: Graders,
    ) -> list[Verdict]:
        answers = [
            (item.fields["problem"], reply) for item, reply in zip(items, replies, strict=True)
        ]
        kinds = load_kinds(*dict.fromkeys(item.kind for item in items))
        attempts = grade_answers(
            answers, kinds, style.prompt_format, graders.sandbox, VerifyConfig()
        )
        return [
            CORRECT
            if attempt.verdict == "correct"
            else Verdict(False, f"{attempt.verdict}: {attempt.detail}".removesuffix(": "))
            for attempt in attempts
        ]

    def vote_key(self, item: suite.Item, reply: str, style: PromptStyle) -> str | None:
        """Answers can be compared where grading compares texts. Where it runs them, many different
        answers are correct."""
        kind = load_kind(item.kind)
        try:
            answer = kind.read_answer(style.prompt_format.parse(reply, kind.answer_blocks))
        except Malformed:
            answer = ""
        rules = RunRules.of(VerifyConfig())
        return None if kind.grading(item.fields["problem"], answer, rules) else answer


class HeldOut(ProblemSuite):
    note = ""
    max_tokens = max(MAX_TOKENS.values())

    def __init__(self, name: str, summary: str = "") -> None:
        self.name, self.summary = name, summary

    def prompt_version(self, style: PromptStyle) -> str:
        return f"{style.prompt_format.name}-{_fingerprint(style.prompt_format)}"

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        all_items = load_large() if self.name == LARGE else load_suite(self.name)
        numbers = {id(item): f"{number:04d}" for number, item in enumerate(all_items)}
        return [
            suite.Item(
                numbers[id(item)],
                {"problem": item.problem},
                item.problem.kind,
                item.tier,
                MAX_TOKENS[item.problem.kind],
            )
            for item in spread(all_items, limit)
        ]


class HeldOutPuzzles(ProblemSuite):
    """Logic puzzles of the sizes that `pawn-games` has read; it was trained on none of them."""

    name, note, max_tokens = "heldout-logic", "", 640
    summary = "600 logic puzzles with three or four variables, 200 of each tier 1 to 3"

    def prompt_version(self, style: PromptStyle) -> str:
        texts = [self.prompt(item, style).text for item in self.items(None, 1)]
        return f"{style.prompt_format.name}-{hashlib.sha256(texts[0].encode()).hexdigest()[:6]}"

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        """Tiers take turns."""
        return [
            suite.Item(f"{number:04d}", {"problem": problem}, problem.kind, tier)
            for number, (tier, problem) in enumerate(_puzzles()[:limit])
        ]


@cache
def _puzzles() -> tuple[tuple[int, Problem], ...]:
    return tuple((line["tier"], read_puzzle_line(line)) for line in read_lines("heldout-logic"))


def _fingerprint(prompt_format: PromptFormat) -> str:
    """Of the prompts for a small problem of each kind."""
    return hash_prompts(
        prompt_format.render(load_kind(problem.kind).ask_answer(problem))
        for problem in small_problems()
    )


def hash_prompts(prompts: Iterable[Prompt]) -> str:
    """It changes with any word of them."""
    texts = [(prompt.system, prompt.text, prompt.stop, *prompt.before) for prompt in prompts]
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:6]


def spread(items: Sequence[Item], limit: int | None) -> Sequence[Item]:
    """`limit` items, as evenly over kinds and tiers as possible."""
    if limit is None or limit >= len(items):
        return items
    rounds: dict[int, list[int]] = defaultdict(list)  # the first item of every cell, the second ...
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
