"""A domain of one's own, as docs/extending.md shows it: deduction, where the order of a list does
not count."""

from collections.abc import Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.sandbox.literals import canonical, parse_literal
from redqueen.tasks.code.programs import (
    Code,
    CodeKind,
    read_input,
    read_output,
    read_program,
    show_first_call,
)
from redqueen.tasks.kind import Block, FewShot, Request, RunRules, take

FEW_SHOT = FewShot(  # chat models see it as an earlier turn
    "The text has an a, a b and a c; each of them is doubled.",
    reply=(("output", "['aa', 'cc', 'bb']"),),
    given=(
        ("program", "def f(text):\n    return [letter * 2 for letter in text]\n"),
        ("input", "'abc'"),
    ),
)


class AnyOrder(CodeKind):
    name = "code_o"  # the word in prompts: Pawn knows this one, larger bases read the instruction
    reference_count = 3
    reference_kinds = ("code_o",)  # seeds are of this kind
    proposal_blocks = ("program", "input")
    answer_blocks = ("output",)

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        instruction = "Write a function `f` that returns a list, and an input for it."
        examples = tuple(show_first_call(problem) for problem in references)
        return Request(self.name, "teacher", instruction, examples, (), self.proposal_blocks)

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Code:
        return Code(read_program(blocks), (read_input(take(blocks, "input")),))

    def ask_answer(self, problem: Problem) -> Request:
        given = ("program", problem.payload.program), ("input", problem.payload.inputs[0])
        instruction = "Which items does the returned list have? Their order does not count."
        return Request(self.name, "student", instruction, (), given, self.answer_blocks, FEW_SHOT)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return read_output(take(blocks, "output"))

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None  # nothing of the answer has to run

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return items(answer) == items(problem.gold[0])


def items(text: str) -> list[str]:
    """The items of a list in one order, each in its canonical spelling; any other value is its own
    only item."""
    value = parse_literal(text)
    return sorted(map(canonical, value)) if isinstance(value, list) else [text]
