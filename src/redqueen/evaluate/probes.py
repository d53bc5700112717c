"""Shortcut probes: problems whose evidence is spoilt, such as a program with its lines shuffled.

The gold answer is that of the whole problem. Whoever is still correct has guessed, from what
answers usually are or from what can be read without working it out. A score means something beside
the base's, on the same items.
"""

from pathlib import Path

from redqueen.benchmarks import suite
from redqueen.benchmarks.suite import PromptStyle
from redqueen.evaluate.heldout import HeldOut, ProblemSuite
from redqueen.rng import stream
from redqueen.tasks import load_kind
from redqueen.tasks.prompts import Prompt


class Shortcuts(ProblemSuite):
    """The problems of another suite, those that can be spoilt. Items hold their `problem`, and the
    `request` that is made of it."""

    summary = "heldout-quick with spoilt evidence: a model that is still correct is guessing"
    note = "the evidence is spoilt: a correct answer is a guess"

    def __init__(self, name: str = "shortcut", problems: ProblemSuite | None = None) -> None:
        self.name = name
        self.problems = problems or HeldOut("heldout-quick")
        self.max_tokens = self.problems.max_tokens

    def prompt_version(self, style: PromptStyle) -> str:
        return f"spoilt-{self.problems.prompt_version(style)}"

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        items: list[suite.Item] = []
        for item in self.problems.items(data, limit):
            problem, rng = item.fields["problem"], stream(0, "shortcut", item.id)
            request = load_kind(item.kind).without_evidence(problem, rng)
            if request is not None:
                fields = {"problem": problem, "request": request}
                items.append(suite.Item(item.id, fields, item.kind, item.tier, item.max_tokens))
        return items

    def prompt(self, item: suite.Item, style: PromptStyle) -> Prompt:
        return style.prompt_format.render(item.fields["request"])
