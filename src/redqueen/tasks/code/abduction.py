"""Abduction: given a program and an output, find an input that gives it. Any such input is
correct.

Grading runs a teacher's program, so the gold input runs in the same job as a control. If it no
longer gives the gold output, the program can tell verification from grading, or is a matter of
chance, and the problem is void."""

from collections.abc import Mapping, Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome, Result
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.code.programs import ABDUCTION, ProgramAndInput, read_input
from redqueen.tasks.code.surface import code_surface
from redqueen.tasks.code.texts import ABDUCE
from redqueen.tasks.kind import Block, Request, RunRules, Void, take


class CodeI(ProgramAndInput):
    name = ABDUCTION
    summary = "find an input with that output"
    shown = "the program and its output"
    hidden = "an input that gives this output"
    answer_blocks = ("input",)

    def ask_answer(self, problem: Problem) -> Request:
        given = ("program", problem.payload.program), ("output", problem.gold[0])
        few_shot = FEW_SHOT[self.name, "student"]
        return self.request("student", ABDUCE, given, few_shot=few_shot)

    def surface(self, problem: Problem) -> Mapping[str, float | str]:
        """Of the answer that is known: there may be others."""
        return code_surface(problem, self.ask_answer(problem).given, problem.payload.inputs[0])

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return read_input(take(blocks, "input"))

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        code = problem.payload
        return rules.job(code.program, (code.inputs[0], answer))

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        assert outcome is not None
        control, result = outcome.results
        gold = Result("value", problem.gold[0])
        if control != gold and not _was_ended(outcome):
            raise Void(f"the gold input gave {control.kind} {control.text}"[:200])
        return result == gold


def _was_ended(outcome: Outcome) -> bool:
    """Whether the process was ended, which says nothing of the control: an answer alone may run
    into a limit, and must not void the problem. (A program that ends its process whenever it is
    graded has no solver, and earns its teacher nothing.)"""
    control, result = outcome.results
    return control == result and control.kind in ("timeout", "crashed", "unsupported")
