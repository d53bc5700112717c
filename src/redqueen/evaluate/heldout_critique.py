"""Critics on attempts of Pawn: `heldout-critique` and `heldout-critique-lines`.

Pawn, as it ships, attempted the problems of `heldout-deduction`, whose programs no Pawn is trained
on, six times each at temperature 1. Of every problem that has both, a correct attempt and a wrong
one are frozen, with their reasoning and the line that execution says is the first wrong one. The
lines suite has the wrong attempts whose first wrong line is known.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from redqueen.benchmarks import suite
from redqueen.benchmarks.suite import PromptStyle
from redqueen.evaluate.critique import AttemptSuite, attempt_fields
from redqueen.evaluate.replies import GradedReply
from redqueen.pawn.heldout import load_suite, read_lines
from redqueen.rng import stream
from redqueen.sandbox import Sandbox
from redqueen.tasks import Malformed, load_kind
from redqueen.tasks.code.programs import DEDUCTION
from redqueen.tasks.games.critique import read_verdict
from redqueen.tasks.games.game import answer_in
from redqueen.tasks.prompts import load_prompt_format, reasoning_of

NAME, PROBLEMS = "heldout-critique", "heldout-deduction"
VERDICTS = ("correct", "wrong")


@cache
def _all_items() -> tuple[suite.Item, ...]:
    problems = load_suite(PROBLEMS)
    return tuple(
        suite.Item(
            f"{number:04d}",
            attempt_fields(
                problems[line["item"]].problem, line["reasoning"], line["answer"], line["verdict"]
            )
            | {"line": line["line"]},
            DEDUCTION,
            problems[line["item"]].tier,
        )
        for number, line in enumerate(read_lines(NAME))
    )


class HeldOutAttempts(AttemptSuite):
    """Is the attempt correct?"""

    name = NAME
    summary = "is this attempt of Pawn correct? A correct and a wrong one of each problem"
    max_tokens = 640

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        """Tiers and verdicts take turns, so that the first ones are balanced, too."""
        return list(_all_items()[:limit])


class HeldOutLines(AttemptSuite):
    """Which line of a wrong attempt is the first wrong one?"""

    name = f"{NAME}-lines"
    summary = "which line of this wrong attempt is the first wrong one?"
    max_tokens = 640
    note = "All attempts are wrong: correct is who says so and names the first wrong line."

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        return [item for item in _all_items() if item.fields["line"]][:limit]

    def truth(self, item: suite.Item) -> str:
        return f"wrong, line {item.fields['line']}"

    def vote_key(self, item: suite.Item, reply: str, style: PromptStyle) -> str:
        try:
            said, line = read_verdict(style.prompt_format.parse(reply, ("verdict",)))
        except Malformed:
            return ""
        return f"{said}, line {line}" if line is not None else said


def freeze_attempts(replies: Sequence[GradedReply], sandbox: Sandbox) -> list[dict[str, Any]]:
    """The lines of the suite, from Pawn's replies to the problems: how it was made."""
    chosen = [reply for pair in _pairs(replies) for reply in pair]
    jobs = [load_kind(DEDUCTION).trace(_problem(reply)) for reply in chosen]
    outcomes = sandbox.run([job for job in jobs if job is not None])
    return [_line(reply, outcome) for reply, outcome in zip(chosen, outcomes, strict=True)]


def _pairs(replies: Sequence[GradedReply]) -> Iterator[list[GradedReply]]:
    """A correct and a wrong reply to each problem that has both; tiers take turns."""
    by_item: dict[str, dict[str, list[GradedReply]]] = defaultdict(lambda: defaultdict(list))
    for reply in sorted(replies, key=lambda reply: (reply.item, reply.sample)):
        by_item[reply.item]["correct" if reply.correct else reply.reason].append(reply)
    tiers: dict[int, list[list[GradedReply]]] = defaultdict(list)
    for item, own in by_item.items():
        if all(own.get(verdict) for verdict in VERDICTS):
            rng = stream(0, NAME, item)
            pair = [rng.choice(own[verdict]) for verdict in VERDICTS]
            tiers[load_suite(PROBLEMS)[int(item)].tier].append(pair)
    for several in zip_longest(*(tiers[tier] for tier in sorted(tiers))):
        yield from (pair for pair in several if pair is not None)


def _problem(reply: GradedReply) -> Any:
    return load_suite(PROBLEMS)[int(reply.item)].problem


def _line(reply: GradedReply, outcome: Any) -> dict[str, Any]:
    kind, reasoning = load_kind(DEDUCTION), reasoning_of(reply.reply)
    wrong = None
    if not reply.correct:
        wrong = kind.first_wrong_line(_problem(reply), reasoning, outcome)
    return {
        "item": int(reply.item),
        "reasoning": reasoning,
        "answer": answer_in(reply.reply, kind, load_prompt_format("compact")),
        "verdict": "correct" if reply.correct else "wrong",
        "line": wrong,
    }
