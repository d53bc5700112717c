"""What the three code-reasoning kinds share: a Python program and inputs for it as the payload,
verified by running it, the outputs as gold."""

import ast
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from redqueen.records import Problem, content_key
from redqueen.sandbox import Inspection, Job, Outcome
from redqueen.sandbox.inspection.canonical import canonical_program
from redqueen.sandbox.inspection.complexity import measure
from redqueen.sandbox.literals import NotLiteral, canonical, normal_arguments, parse_literal
from redqueen.tasks.code import coverage
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.code.game_examples import GAME_EXAMPLES
from redqueen.tasks.code.surface import code_surface, shuffle_lines
from redqueen.tasks.code.texts import PROPOSE_PROGRAM
from redqueen.tasks.kind import (
    Block,
    FewShot,
    Kind,
    Malformed,
    Reject,
    Request,
    RunRules,
    Verified,
    take,
)

DEDUCTION, ABDUCTION, INDUCTION = "code_o", "code_i", "code_f"


@dataclass(frozen=True, slots=True)
class Code:
    """The payload of a code problem."""

    program: str
    inputs: tuple[str, ...]
    """Arguments of one call each, in normal spelling."""
    message: str = ""
    """A hint for whoever has to find the program."""
    canonical: str = ""
    """A hash of the program's canonical form, once it is verified."""


def read_program(blocks: Sequence[Block]) -> str:
    program = take(blocks, "program").strip("\n").rstrip() + "\n"
    if not program.strip():
        raise Malformed("empty program")
    return program


def read_input(text: str) -> str:
    """A call's arguments in normal spelling. They are data: nothing here is evaluated, and nothing
    is pasted into a source."""
    try:
        return normal_arguments(text.strip())
    except NotLiteral as error:
        raise Malformed(f"input: {error}") from error


def read_output(text: str) -> str:
    try:
        return canonical(parse_literal(text.strip()))
    except NotLiteral as error:
        raise Malformed(f"output: {error}") from error


class CodeKind(Kind):
    """A program that is run: verification, features and coverage."""

    payload = Code
    system = "You are a careful Python programmer."
    reference_kinds: tuple[str, ...] = (DEDUCTION, ABDUCTION)

    def verification(self, payload: Code, rules: RunRules) -> Job | None:
        """Run the program on its inputs in three processes, after the static checks."""
        longest = max(map(len, payload.inputs), default=0)
        for what, length, most in (
            ("program", len(payload.program), rules.max_program_chars),
            ("input", longest, rules.max_input_chars),
            ("message", len(payload.message), rules.max_message_chars),
        ):
            if length > most:
                raise Reject("too_long", f"{what} of {length} characters, at most {most}")
        return rules.job(payload.program, payload.inputs)

    def verified(self, payload: Code, outcome: Outcome | None, rules: RunRules) -> Verified:
        assert outcome is not None
        if outcome.kind == "rejected":  # a static check, as `word: what`
            word, _, what = outcome.detail.partition(": ")
            raise Reject(word, what)
        if outcome.kind != "value":
            raise Reject(outcome.kind, outcome.detail)
        if outcome.cpu_s > rules.limits.cpu_s:
            raise Reject(
                "timeout",
                f"{outcome.cpu_s:.2f} s of CPU time in all processes, at most "
                f"{rules.limits.cpu_s:g}: with an answer beside it, it would reach the limit",
            )
        longest = max(map(len, outcome.values))
        if longest > rules.max_output_chars:
            raise Reject(
                "too_long", f"output of {longest} characters, at most {rules.max_output_chars}"
            )
        if outcome.inspection is None or outcome.steps is None:
            # both were asked for: the program ended its process after it had answered
            raise Reject("crashed", "the program did not come to its end")
        return _describe(payload, outcome.values, outcome.inspection, outcome.steps)

    def show(self, problem: Problem) -> tuple[Block, ...]:
        code: Code = problem.payload
        pairs = zip(code.inputs, problem.gold, strict=True)
        return (
            ("program", code.program),
            *((("message", code.message),) if code.message else ()),
            *(block for given, output in pairs for block in (("input", given), ("output", output))),
        )

    def length(self, problem: Problem) -> int:
        return len(problem.payload.program)

    def structure(self, problem: Problem) -> str:
        return str(problem.payload.canonical)

    def cell(self, problem: Problem) -> str:
        return coverage.cell(problem.kind, problem.features)

    def surface(self, problem: Problem) -> Mapping[str, float | str]:
        return code_surface(problem, self.ask_answer(problem).given, problem.gold[0])

    def without_evidence(self, problem: Problem, rng: Random) -> Request | None:
        """The lines of the program are shuffled."""
        code: Code = problem.payload
        shuffled = shuffle_lines(code.program, rng)
        if shuffled == code.program:
            return None
        return self.ask_answer(replace(problem, payload=replace(code, program=shuffled)))

    def probe(self, problem: Problem) -> Job | None:
        return coverage.probe(problem.payload.program, problem.payload.inputs[0])

    def behaviour(self, problem: Problem, outcome: Outcome | None) -> str:
        assert outcome is not None
        return coverage.behaviour(problem.payload.inputs[0], outcome)

    def example(self, role: str) -> FewShot | None:
        return GAME_EXAMPLES.get((self.name, role))

    def load_payload(self, fields: Mapping[str, Any]) -> Code:
        program, inputs = fields.get("program"), fields.get("inputs")
        if isinstance(inputs, str):  # a list in a column of text
            with contextlib.suppress(ValueError):
                inputs = json.loads(inputs)
        message, form = fields.get("message", ""), fields.get("canonical", "")
        if not all(isinstance(text, str) for text in (program, message, form)) or not (
            isinstance(inputs, list | tuple)
            and inputs
            and all(isinstance(text, str) for text in inputs)
        ):
            raise ValueError(
                "expected the texts 'program' and 'message', and 'inputs' as a list of texts"
            )
        return Code(str(program), tuple(inputs), message, form)


def _describe(code: Code, outputs: tuple[str, ...], inspection: Inspection, steps: int) -> Verified:
    complexity, form = inspection.complexity, inspection.canonical
    features = {
        "ast_depth": complexity.ast_depth,
        "cyclomatic": complexity.cyclomatic,
        "loc": complexity.loc,
        "variables": complexity.variables,
        "steps_executed": steps,
    }
    verified = replace(code, canonical=content_key(form))
    return Verified(verified, outputs, features, (form, *code.inputs))


def load_verified(kind: str, code: Code, outputs: tuple[str, ...], steps: int) -> Problem:
    """A problem that was verified before, from a file of the package: nothing is run."""
    tree = ast.parse(code.program)
    inspection = Inspection(canonical_program(tree), measure(tree, code.program))
    return _describe(code, outputs, inspection, steps).problem(kind)


def unverified_reference(program: str) -> Problem:
    """A program that a proposal of induction is written for, where only its text is known: of the
    archived problem no more is needed to read the proposal."""
    return Verified(Code(program, ()), (), {}, (program,)).problem(DEDUCTION)


class ProgramAndInput(CodeKind):
    """The teacher's side of deduction and abduction: a program and one input. They differ in what
    the student is shown."""

    shown: str
    hidden: str
    reference_count = 6
    proposal_blocks: tuple[str, ...] = ("program", "input")

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        return self.request(
            "teacher",
            PROPOSE_PROGRAM.format(shown=self.shown, hidden=self.hidden),
            examples=tuple(show_first_call(problem) for problem in references),
            few_shot=FEW_SHOT[self.name, "teacher"],
        )

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Code:
        return Code(read_program(blocks), (read_input(take(blocks, "input")),))


def show_first_call(problem: Problem) -> tuple[Block, ...]:
    """The program, and what it returns for its first input."""
    code: Code = problem.payload
    return ("program", code.program), ("input", code.inputs[0]), ("output", problem.gold[0])
