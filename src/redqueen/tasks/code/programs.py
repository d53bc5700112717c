"""What the three code-reasoning kinds share: programs, inputs and outputs as blocks."""

from collections.abc import Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job
from redqueen.sandbox.literals import NotLiteral, canonical, normal_arguments, parse_literal
from redqueen.tasks.code.few_shot import FEW_SHOT
from redqueen.tasks.kind import Block, Draft, Malformed, Request, RunRules, take


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


def verification(draft: Draft, rules: RunRules) -> Job:
    """Run the draft on its inputs in three processes, after the static checks."""
    return Job(
        draft.program,
        draft.inputs,
        limits=rules.proposal,
        stable=True,
        allowed_modules=rules.allowed_modules,
        count_steps=True,
    )


_PROPOSE = """\
Invent one new problem about reading Python: write a function `f` and one input for it. Somebody else will be given {shown} and has to
work out {hidden} in the head. The best problem is one that a skilled reader solves about half of the time: it takes several steps of
reasoning, each of them well defined.
- The program defines exactly one top-level function `f`; helper functions and imports of pure modules such as math, re, itertools and
  collections are fine.
- It must be deterministic: no randomness, no clock, no files, no input or print, nothing that depends on set order or object identity.
- It must end within a fraction of a second and return plain data: numbers, text, booleans, None, lists, tuples, sets or dicts.
- The input is the literal arguments of one call, written as between its parentheses, for example `[3, 1, 2], 'ab'`. No expressions.
- Do not repeat an example or change it only slightly."""


class ProgramAndInput:
    """The teacher's side of deduction and abduction: a program and one input. They differ in what
    the student is shown."""

    name: str
    shown: str
    hidden: str
    reference_count = 6
    reference_kinds = ("code_o", "code_i")
    proposal_blocks = ("program", "input")

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        examples = tuple(
            (
                ("program", problem.program),
                ("input", problem.inputs[0]),
                ("output", problem.outputs[0]),
            )
            for problem in references
        )
        instruction = _PROPOSE.format(shown=self.shown, hidden=self.hidden)
        return Request(
            self.name,
            "teacher",
            instruction,
            examples,
            (),
            self.proposal_blocks,
            FEW_SHOT[self.name, "teacher"],
        )

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Draft:
        return Draft(read_program(blocks), (read_input(take(blocks, "input")),))

    def verification(self, draft: Draft, rules: RunRules) -> Job:
        return verification(draft, rules)
