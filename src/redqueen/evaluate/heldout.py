"""Pawn's held-out suites, as suites like any other."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence

from redqueen.benchmarks import suite
from redqueen.benchmarks.suite import RIGHT, Judges, Style, Verdict
from redqueen.config.stages import VerifyConfig
from redqueen.pawn.heldout import Item
from redqueen.stages.solve import grade_answers
from redqueen.tasks import KINDS, Malformed, load_kinds
from redqueen.tasks.code.programs import Code
from redqueen.tasks.kind import Verified
from redqueen.tasks.prompts import Prompt, PromptFormat

MAX_TOKENS = {"code_o": 400, "code_i": 100, "code_f": 250}
"""Room for an answer, thought included: more than any answer by Pawn takes."""


NAMES = ("heldout", "heldout-quick")


class HeldOut:
    """A held-out suite in the words of a prompt prompt_format; the style of benchmarks means nothing here."""

    note = ""

    def __init__(
        self, name: str, prompt_format: PromptFormat, max_tokens: int | None = None
    ) -> None:
        self.name, self.prompt_format, self.own_room = name, prompt_format, max_tokens
        self.max_tokens = max_tokens or max(MAX_TOKENS.values())
        self.prompt_version = f"{prompt_format.name}-{_fingerprint(prompt_format)}"

    def items(self, limit: int | None) -> list[suite.Item]:
        from redqueen.pawn.heldout import load_suite

        whole = load_suite(self.name)
        numbers = {id(item): f"{number:04d}" for number, item in enumerate(whole)}
        return [
            suite.Item(
                numbers[id(one)],
                {"problem": one.problem},
                one.problem.kind,
                one.tier,
                self.own_room or MAX_TOKENS[one.problem.kind],
            )
            for one in spread(whole, limit)
        ]

    def prompt(self, item: suite.Item, style: Style) -> Prompt:
        return self.prompt_format.render(KINDS[item.kind].ask_answer(item.fields["problem"]))

    def grade(
        self, items: Sequence[suite.Item], replies: Sequence[str], style: Style, judges: Judges
    ) -> list[Verdict]:
        answers = [
            (item.fields["problem"], reply) for item, reply in zip(items, replies, strict=True)
        ]
        attempts = grade_answers(
            answers, load_kinds(), self.prompt_format, judges.sandbox, VerifyConfig()
        )
        return [
            RIGHT
            if one.verdict == "correct"
            else Verdict(False, f"{one.verdict}: {one.detail}".removesuffix(": "))
            for one in attempts
        ]

    def ballot(self, item: suite.Item, reply: str, style: Style) -> str | None:
        """Outputs can be compared. Of inputs many are right, and programs are equal by what they
        do."""
        kind = KINDS[item.kind]
        if kind.name != "code_o":
            return None
        try:
            return kind.read_answer(self.prompt_format.parse(reply, kind.answer_blocks))
        except Malformed:
            return ""


def _fingerprint(prompt_format: PromptFormat) -> str:
    """Of what a prompt_format makes of a small problem of each kind: it changes with any word of the
    prompts."""
    numbers = tuple(map(str, range(10)))
    code = Code("def f(a):\n    return a\n", numbers, "It returns what it is given.")
    problem = Verified(code, numbers, {}, ())
    prompts = [
        prompt_format.render(kind.ask_answer(problem.problem(name)))
        for name, kind in load_kinds().items()
    ]
    return hashlib.sha256(
        repr(
            [(prompt.system, prompt.text, prompt.stop, *prompt.before) for prompt in prompts]
        ).encode()
    ).hexdigest()[:6]


def spread(items: Sequence[Item], limit: int | None) -> Sequence[Item]:
    """So many of the items, as evenly over kinds and tiers as they can be."""
    if limit is None or limit >= len(items):
        return items
    rounds: dict[int, list[int]] = defaultdict(
        list
    )  # the first items of all kinds and tiers, then the second ones, ...
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
