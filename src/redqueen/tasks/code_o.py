"""Deduction: given a program and an input, what is the output?"""

from collections.abc import Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks import code
from redqueen.tasks.kind import Block, Draft, Request, RunRules, take

_SOLVE = """\
Work out what the function returns for this input. Go through it step by step, then give the returned value as a Python literal, exactly
as it would be written in source: quotes around text, the right type of brackets."""


class CodeO:
    name = "code_o"
    reference_count = 6
    proposal_blocks = ("program", "input")
    answer_blocks = ("output",)

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        instruction = code.PROPOSE_PROGRAM.format(shown="the program and the input", hidden="the output")
        return Request(self.name, "teacher", instruction, tuple(code.example(problem) for problem in references), (), self.proposal_blocks)

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Draft:
        return Draft(code.read_program(blocks), (code.read_input(take(blocks, "input")),))

    def verification(self, draft: Draft, rules: RunRules) -> Job:
        return code.verification(draft, rules)

    def ask_answer(self, problem: Problem) -> Request:
        given = ("program", problem.program), ("input", problem.inputs[0])
        return Request(self.name, "student", _SOLVE, (), given, self.answer_blocks)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return code.read_output(take(blocks, "output"))

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None

    def is_right(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return answer == problem.outputs[0]  # both canonical: 1, 1.0 and True differ
