"""Deduction: given a program and an input, what is the output?"""

from collections.abc import Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.code import programs as code
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.kind import Block, Request, RunRules, take

_SOLVE = """\
Work out what the function returns for this input. Go through it step by step, then give the returned value as a Python literal, exactly
as it would be written in source: quotes around text, the right type of brackets."""


class CodeO(code.ProgramAndInput):
    name = "code_o"
    shown = "the program and the input"
    hidden = "the output"
    answer_blocks = ("output",)

    def ask_answer(self, problem: Problem) -> Request:
        given = ("program", problem.program), ("input", problem.inputs[0])
        return Request(
            self.name,
            "student",
            _SOLVE,
            (),
            given,
            self.answer_blocks,
            FEW_SHOT[self.name, "student"],
        )

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return code.read_output(take(blocks, "output"))

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None

    def is_right(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return answer == problem.outputs[0]  # both canonical: 1, 1.0 and True differ
