"""Abduction: given a program and an output, find an input that gives it. Any such input is right."""

from collections.abc import Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks import code
from redqueen.tasks.kind import Block, Draft, Request, RunRules, take

_SOLVE = """\
Find arguments for which the function returns exactly this output; any that do are right. Reason backwards step by step, check your
guess, then give the arguments of the call as literals, written as between its parentheses, for example `[3, 1, 2], 'ab'`."""


class CodeI:
    name = "code_i"
    reference_count = 6
    proposal_blocks = ("program", "input")
    answer_blocks = ("input",)

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        instruction = code.PROPOSE_PROGRAM.format(shown="the program and its output", hidden="an input that gives this output")
        return Request(self.name, "teacher", instruction, tuple(code.example(problem) for problem in references), (), self.proposal_blocks)

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Draft:
        return Draft(code.read_program(blocks), (code.read_input(take(blocks, "input")),))

    def verification(self, draft: Draft, rules: RunRules) -> Job:
        return code.verification(draft, rules)

    def ask_answer(self, problem: Problem) -> Request:
        given = ("program", problem.program), ("output", problem.outputs[0])
        return Request(self.name, "student", _SOLVE, (), given, self.answer_blocks)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return code.read_input(take(blocks, "input"))

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return Job(problem.program, (answer,), limits=rules.answer)

    def is_right(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return outcome is not None and outcome.kind == "value" and outcome.values == problem.outputs
