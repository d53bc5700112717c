"""Abduction: given a program and an output, find an input that gives it. Any such input is
correct."""

from collections.abc import Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.code.programs import ABDUCTION, ProgramAndInput, read_input
from redqueen.tasks.code.texts import ABDUCE
from redqueen.tasks.kind import Block, Request, RunRules, take


class CodeI(ProgramAndInput):
    name = ABDUCTION
    shown = "the program and its output"
    hidden = "an input that gives this output"
    answer_blocks = ("input",)

    def ask_answer(self, problem: Problem) -> Request:
        given = ("program", problem.payload.program), ("output", problem.gold[0])
        few_shot = FEW_SHOT[self.name, "student"]
        return Request(self.name, "student", ABDUCE, (), given, self.answer_blocks, few_shot)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return read_input(take(blocks, "input"))

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return Job(problem.payload.program, (answer,), limits=rules.answer)

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return outcome is not None and outcome.kind == "value" and outcome.values == problem.gold
