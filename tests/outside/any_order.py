"""A kind of one's own, as docs/extending.md shows it: deduction, where the order of a list does not
count."""

from dataclasses import replace

from redqueen.records import Problem
from redqueen.sandbox import Outcome
from redqueen.sandbox.literals import canonical, parse_literal
from redqueen.tasks import Request
from redqueen.tasks.code.deduction import CodeO


class AnyOrder(CodeO):
    def ask_answer(self, problem: Problem) -> Request:
        request = super().ask_answer(problem)
        return replace(
            request, instruction=f"{request.instruction} The order of a list does not count."
        )

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return items(answer) == items(problem.gold[0])


def items(text: str) -> list[str]:
    """The items of a list in one order; any other value is its own only item."""
    value = parse_literal(text)
    return sorted(map(canonical, value)) if isinstance(value, list) else [text]
