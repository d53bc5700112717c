"""Abduction: given a program and an output, find an input that gives it. Any such input is right."""

from collections.abc import Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.code import programs as code
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.kind import Block, Request, RunRules, take

_SOLVE = """\
Find arguments for which the function returns exactly this output; any that do are right. Reason backwards step by step, check your
guess, then give the arguments of the call as literals, written as between its parentheses, for example `[3, 1, 2], 'ab'`."""


class CodeI(code.ProgramAndInput):
    name = "code_i"
    shown = "the program and its output"
    hidden = "an input that gives this output"
    answer_blocks = ("input",)

    def ask_answer(self, problem: Problem) -> Request:
        given = ("program", problem.program), ("output", problem.outputs[0])
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
        return code.read_input(take(blocks, "input"))

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return Job(problem.program, (answer,), limits=rules.answer)

    def is_right(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return outcome is not None and outcome.kind == "value" and outcome.values == problem.outputs
