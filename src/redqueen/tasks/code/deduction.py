"""Deduction: given a program and an input, what is the output?

Grading compares two literals: nothing runs, so there is nothing to control."""

from collections.abc import Sequence
from random import Random

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.code.examples import EXAMPLES
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.code.programs import DEDUCTION, Code, ProgramAndInput, read_output
from redqueen.tasks.code.texts import DEDUCE
from redqueen.tasks.code.trace import (
    alter_step,
    first_departure,
    read_returned,
    read_trace,
    trace_job,
    write_steps,
)
from redqueen.tasks.explain import Altered
from redqueen.tasks.kind import Block, Request, RunRules, take


class CodeO(ProgramAndInput):
    name = DEDUCTION
    summary = "predict the output"
    shown = "the program and the input"
    hidden = "the output"
    answer_blocks = ("output",)

    def seeds(self) -> Sequence[Code]:
        return EXAMPLES

    def ask_answer(self, problem: Problem) -> Request:
        code = problem.payload
        given = ("program", code.program), ("input", code.inputs[0])
        few_shot = FEW_SHOT[self.name, "student"]
        return self.request("student", DEDUCE, given, few_shot=few_shot)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return read_output(take(blocks, "output"))

    def trace(self, problem: Problem) -> Job | None:
        code: Code = problem.payload
        return trace_job(code.program, code.inputs[0])

    def first_wrong_line(
        self, problem: Problem, reasoning: str, outcome: Outcome | None
    ) -> int | None:
        steps = read_trace(outcome, problem.gold[0])
        line = None if steps is None else first_departure(reasoning, steps)
        return None if line is None else line + 1

    def alter(self, problem: Problem, outcome: Outcome | None, rng: Random) -> Altered | None:
        code: Code = problem.payload
        steps = read_trace(outcome, problem.gold[0])
        chosen = steps and alter_step(steps, rng)
        if not steps or not chosen:
            return None
        at, other = chosen
        return Altered(
            write_steps(steps, at),
            write_steps(steps, at, other),
            trace_job(code.program, code.inputs[0], at, other),
        )

    def altered_answer(self, outcome: Outcome | None) -> str:
        return read_returned(outcome)

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return answer == problem.gold[0]  # both canonical: 1, 1.0 and True differ
