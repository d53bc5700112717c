"""Induction: given input-output pairs and a message, write the program. It is correct when it
answers the hidden pairs too.

Grading runs the student's own program and nothing of a teacher's: there is nothing to control. The
program sees hidden inputs but no gold answer; that it is inspected and run in several processes
keeps answers out that are right by chance."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from redqueen.errors import ConfigError
from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.code.programs import (
    INDUCTION,
    Code,
    CodeKind,
    read_input,
    read_program,
    show_first_call,
)
from redqueen.tasks.code.surface import tells_program
from redqueen.tasks.code.texts import INDUCE, INPUTS, PROPOSE_INPUTS, SHOWN
from redqueen.tasks.kind import Block, Malformed, Request, RunRules, take

_FEWEST = 8
"""Different inputs that are enough: one that is written twice is left out, and does not spoil the
others."""


class CodeF(CodeKind):
    name = INDUCTION
    summary = "write the program, given half of the pairs and a message"
    derived = True
    reference_count = 1
    proposal_blocks = ("message", *["input"] * INPUTS)
    answer_blocks = ("program",)

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        if not references:
            raise ConfigError(
                "code_f takes its programs from the archive, which has none of the kinds code_o, "
                "code_i and code_f: play one of these as well, give archive.seeds that have some, "
                "or a larger archive.cap"
            )
        given = show_first_call(references[0])
        few_shot = FEW_SHOT[self.name, "teacher"]
        return self.request("teacher", PROPOSE_INPUTS, given, few_shot=few_shot)

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Code:
        if len(references) != 1:
            raise Malformed("no archived program to write inputs for")
        inputs = tuple(
            dict.fromkeys(read_input(text) for label, text in blocks if label == "input")
        )
        _check_inputs(inputs)
        program = references[0].payload.program
        return Code(program, inputs, take(blocks, "message").strip())

    def verification(self, payload: Code, rules: RunRules) -> Job | None:
        job = super().verification(payload, rules)
        _check_inputs(payload.inputs)  # the payload may come from a file
        return job

    def ask_answer(self, problem: Problem) -> Request:
        code: Code = problem.payload
        given: list[Block] = [("message", code.message)]
        for arguments, output in list(zip(code.inputs, problem.gold, strict=True))[:SHOWN]:
            given += [("input", arguments), ("output", output)]
        few_shot = FEW_SHOT[self.name, "student"]
        return self.request("student", INDUCE, tuple(given), few_shot=few_shot)

    def surface(self, problem: Problem) -> Mapping[str, float | str]:
        code: Code = problem.payload
        own = dict(super().surface(problem))
        del own["answer_shown"]  # outputs are shown on purpose: the answer is a program
        return {
            **own,
            "message_tells": float(tells_program(code.message, code.program)),
            "outputs_equal": float(len(set(problem.gold)) == 1),
        }

    def without_evidence(self, problem: Problem, rng: Random) -> Request | None:
        """Outputs stand beside the inputs of others; the message is left as it is."""
        shown = rng.sample(problem.gold[:SHOWN], len(problem.gold[:SHOWN]))
        if tuple(shown) == problem.gold[:SHOWN]:
            return None
        return self.ask_answer(replace(problem, gold=(*shown, *problem.gold[SHOWN:])))

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return read_program(blocks)

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        hidden = problem.payload.inputs[SHOWN:]
        return rules.job(answer, hidden)

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return (
            outcome is not None
            and outcome.kind == "value"
            and outcome.values == problem.gold[SHOWN:]
        )


def _check_inputs(inputs: Sequence[str]) -> None:
    count = len(set(inputs))
    if count < _FEWEST or len(inputs) > INPUTS:
        raise Malformed(f"{count} different inputs, expected {INPUTS}, or {_FEWEST} at least")
