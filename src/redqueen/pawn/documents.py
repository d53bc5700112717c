"""The documents Pawn is pre-trained on: proposing and solving documents of every task kind, in the
compact prompt format.

The task kinds themselves render them, so that Pawn has learned to continue exactly what a run asks.
A solving document of deduction may contain a trace of the run as its reasoning; a proposing
document shows problems of about one tier and continues with one like them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from random import Random

from redqueen.pawn.programs import Program, sample_program
from redqueen.records import Problem
from redqueen.rng import stream
from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.tasks import KINDS
from redqueen.tasks.kind import Block
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

SHARD = 256
"""Programs in a shard of documents."""
TIER_WEIGHTS = (14, 13, 13, 12, 11, 10, 9, 8, 5, 5)
"""How often each tier, from 1 to 10, is sampled."""
_REFERENCE_CHARS = 1500
_UNMEASURED = Complexity(0, 0, 0, 0)
_FORMAT = CompactFormat()


def make_shard(
    seed: int, number: int, excluded: Collection[str], reasoning_share: float = 1.0
) -> list[str]:
    """The documents of one shard, in random order: a function of its arguments alone. It contains
    no program with an excluded key. This share of deduction answers comes with reasoning, the
    others without: a base that has seen both leaves something to learn."""
    rng = stream(seed, "pawn", "documents", number)
    reasoning_rng = stream(seed, "pawn", "thoughts", number)  # the name fixes the documents
    tiers = rng.choices(range(1, 11), TIER_WEIGHTS, k=SHARD)
    programs = [
        next(program for program in _sample_programs(rng, tier) if program.key not in excluded)
        for tier in tiers
    ]
    documents = [
        document
        for program in programs
        for document in _write_documents(
            program, programs, rng, lambda: reasoning_rng.random() < reasoning_share
        )
    ]
    rng.shuffle(documents)
    return documents


def _sample_programs(rng: Random, tier: int) -> Iterator[Program]:
    while True:
        yield sample_program(rng, tier)


def _write_documents(
    program: Program, others: Sequence[Program], rng: Random, has_reasoning: Callable[[], bool]
) -> Iterator[str]:
    inputs = rng.sample(range(len(program.inputs)), 5)
    for number in inputs[:3]:
        yield write_solution("code_o", program, number, with_reasoning=has_reasoning())
    for number in inputs[3:]:
        yield write_solution("code_i", program, number)
    yield write_solution("code_f", program)
    for kind in ("code_o", "code_i", "code_f"):
        if rng.random() < 0.5:
            near = [
                other
                for other in others
                if abs(other.tier - program.tier) <= 1 and other is not program
            ]
            references = rng.sample(near, min(len(near), rng.randrange(7)))
            yield write_proposal(kind, program, references)


def make_problem(kind: str, program: Program, number: int = 0) -> Problem:
    """The program as a problem of this kind: with all inputs for induction, else with the one of
    this number. Its complexity is not measured."""
    shown = slice(None) if kind == "code_f" else slice(number, number + 1)
    message = program.hint if kind == "code_f" else ""
    return Problem(
        kind,
        program.text,
        program.inputs[shown],
        program.outputs[shown],
        program.key,
        _UNMEASURED,
        0,
        message,
    )


def write_solution(
    kind: str, program: Program, number: int = 0, with_reasoning: bool = True
) -> str:
    """A problem on one of the program's inputs, and its answer."""
    prompt = _FORMAT.render(KINDS[kind].ask_answer(make_problem(kind, program, number))).text
    blocks = _ANSWERS[kind](program, number)
    return prompt + write_blocks(blocks if with_reasoning else blocks[-1:])


def _answer_deduction(program: Program, number: int) -> list[Block]:
    trace = program.traces[number]
    return [*([("think", "\n".join(trace))] if trace else []), ("output", program.outputs[number])]


_ANSWERS: dict[str, Callable[[Program, int], list[Block]]] = {
    "code_o": _answer_deduction,
    "code_i": lambda program, number: [("input", program.inputs[number])],
    "code_f": lambda program, number: [("program", program.text)],
}


def proposal_blocks(kind: str, program: Program) -> list[Block]:
    """What a teacher writes to propose this program; for induction, to propose inputs for it."""
    if kind == "code_f":
        return [("message", program.hint), *(("input", text) for text in program.inputs)]
    return [("program", program.text), ("input", program.inputs[0])]


def write_proposal(kind: str, program: Program, references: Sequence[Program]) -> str:
    """Reference problems, as many as fit, and a new problem."""
    shown: list[Problem] = []
    if kind == "code_f":
        shown.append(make_problem("code_o", program))
    else:
        for reference in references:
            size = sum(len(problem.program) + 60 for problem in shown) + len(reference.text)
            if size <= _REFERENCE_CHARS:
                shown.append(make_problem("code_o", reference))
    prompt = _FORMAT.render(KINDS[kind].ask_proposal(shown)).text
    return prompt + write_blocks(proposal_blocks(kind, program))
