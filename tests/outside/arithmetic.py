"""A kind without any program: sums such as `17 * 25`, verified and graded in process."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.kind import Block, Kind, Malformed, Reject, Request, RunRules, Verified, take

_OPERATORS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}


@dataclass(frozen=True, slots=True)
class Sum:
    a: int
    operator: str
    b: int

    def __str__(self) -> str:
        return f"{self.a} {self.operator} {self.b}"


class Arithmetic(Kind):
    name = "arithmetic"
    payload = Sum
    reference_count = 2
    proposal_blocks = ("sum",)
    answer_blocks = ("result",)

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        examples = tuple(
            (("sum", str(problem.payload)), ("result", problem.gold[0])) for problem in references
        )
        instruction = "Write a sum of two numbers that is easy to get wrong, such as 17 * 25."
        return Request(self.name, "teacher", instruction, examples, (), self.proposal_blocks)

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Sum:
        parts = re.fullmatch(r"(\d{1,9}) ([-+*]) (\d{1,9})", take(blocks, "sum").strip())
        if parts is None:
            raise Malformed("expected a sum such as 17 * 25")
        return Sum(int(parts[1]), parts[2], int(parts[3]))

    def verification(self, payload: Sum, rules: RunRules) -> Job | None:
        return None

    def verified(self, payload: Sum, outcome: Outcome | None, rules: RunRules) -> Verified:
        if min(payload.a, payload.b) < 2:
            raise Reject("trivial", f"{payload} needs no arithmetic")
        pair = (payload.a, payload.b)
        gold = _OPERATORS[payload.operator](*pair)
        same = pair if payload.operator == "-" else tuple(sorted(pair))  # 2 + 3 is 3 + 2
        features = {"digits": len(str(payload.a)) + len(str(payload.b)), "result": abs(gold)}
        return Verified(payload, (str(gold),), features, (payload.operator, *map(str, same)))

    def ask_answer(self, problem: Problem) -> Request:
        given = (("sum", str(problem.payload)),)
        return Request(self.name, "student", "What is it?", (), given, self.answer_blocks)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        text = take(blocks, "result").strip()
        if not re.fullmatch(r"-?\d{1,20}", text):
            raise Malformed("expected a number")
        return str(int(text))

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return answer == problem.gold[0]

    def structure(self, problem: Problem) -> str:
        return str(problem.payload.operator)

    def cell(self, problem: Problem) -> str:
        return f"{problem.payload.operator}/{problem.features['digits']}"

    def load_payload(self, fields: Mapping[str, Any]) -> Sum:
        sum_: Sum = super().load_payload(fields)
        if sum_.operator not in _OPERATORS or not all(isinstance(n, int) for n in (sum_.a, sum_.b)):
            raise ValueError("expected the numbers 'a' and 'b', and +, - or * as 'operator'")
        return sum_
