"""Induction: given input-output pairs and a message, write the program. It is right when it answers
the hidden pairs too."""

from collections.abc import Sequence

from redqueen.errors import ConfigError
from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.code import programs as code
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.kind import Block, Draft, Malformed, Request, RunRules, take

_INPUTS = 10
_SHOWN = 5
_FEWEST = 8
"""Different inputs that are enough: one that is written twice is left out, and does not spoil the
others."""

_PROPOSE = f"""\
Here is a Python function. Write {_INPUTS} different inputs for it and a short message. Somebody else will see the message and the first
{_SHOWN} input-output pairs, and has to write a function that also gives the right output for the other {_INPUTS - _SHOWN}. Choose inputs
that together show what the function does, and a message that gives a hint without giving the program away.
- Each input is the literal arguments of one call, written as between its parentheses, for example `[3, 1, 2], 'ab'`. No expressions.
- The function must return without an error for every input."""

_SOLVE = """\
Find out what the hidden function does from these input-output pairs and the message, and write a function `f` that does the same for
every input. It must be deterministic and define exactly one top-level function `f`."""


class CodeF:
    name = "code_f"
    reference_count = 1
    reference_kinds = ("code_o", "code_i")
    proposal_blocks = ("message", *["input"] * _INPUTS)
    answer_blocks = ("program",)

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        if not references:
            raise ConfigError(
                "code_f takes its programs from the archive, which has none of the kinds code_o, code_i and code_f: "
                "play one of these as well, give archive.seeds that have some, or a larger archive.cap"
            )
        shown = references[0]
        given = ("program", shown.program), ("input", shown.inputs[0]), ("output", shown.outputs[0])
        return Request(
            self.name,
            "teacher",
            _PROPOSE,
            (),
            given,
            self.proposal_blocks,
            FEW_SHOT[self.name, "teacher"],
        )

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Draft:
        if len(references) != 1:
            raise Malformed("no archived program to write inputs for")
        inputs = tuple(
            dict.fromkeys(code.read_input(text) for label, text in blocks if label == "input")
        )
        _check(inputs)
        return Draft(references[0].program, inputs, take(blocks, "message").strip())

    def verification(self, draft: Draft, rules: RunRules) -> Job:
        _check(draft.inputs)  # a draft may come from a file
        return code.verification(draft, rules)

    def ask_answer(self, problem: Problem) -> Request:
        pairs: list[Block] = []
        for given, output in list(zip(problem.inputs, problem.outputs, strict=True))[:_SHOWN]:
            pairs += [("input", given), ("output", output)]
        return Request(
            self.name,
            "student",
            _SOLVE,
            (),
            (("message", problem.message), *pairs),
            self.answer_blocks,
            FEW_SHOT[self.name, "student"],
        )

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return code.read_program(blocks)

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return Job(
            answer,
            problem.inputs[_SHOWN:],
            limits=rules.answer,
            allowed_modules=rules.allowed_modules,
        )

    def is_right(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return (
            outcome is not None
            and outcome.kind == "value"
            and outcome.values == problem.outputs[_SHOWN:]
        )


def _check(inputs: Sequence[str]) -> None:
    if len(set(inputs)) < _FEWEST or len(inputs) > _INPUTS:
        raise Malformed(
            f"{len(set(inputs))} different inputs, expected {_INPUTS}, or {_FEWEST} at least"
        )
