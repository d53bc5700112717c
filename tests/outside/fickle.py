"""Kinds that go wrong: one whose control fails, and one that does not grade as it verifies."""

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks import RunRules, Void
from redqueen.tasks.code.abduction import CodeI
from tests.outside.arithmetic import Arithmetic


class Fickle(Arithmetic):
    """A product cannot stand a wrong answer beside it."""

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        correct = super().is_correct(problem, answer, outcome)
        if problem.payload.operator == "*" and not correct:
            raise Void("it is another sum now")
        return correct


class Careless(CodeI):
    """Grades as nothing was verified: in one process, uninspected."""

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        code = problem.payload
        return Job(code.program, (code.inputs[0], answer), limits=rules.limits)
