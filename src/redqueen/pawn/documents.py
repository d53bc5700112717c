"""What Pawn reads in pre-training: proposing and solving documents of every task kind, in the
compact prompt_format.

They are rendered by the task kinds themselves, so that what Pawn learned to continue is what the
loop will ask. A solving document of deduction may have a trace of the run as its thought; a
proposing document shows problems of about one tier and goes on with one like them.
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
"""Programs of one shard of documents."""
TIER_WEIGHTS = (14, 13, 13, 12, 11, 10, 9, 8, 5, 5)
"""How often each tier, from 1 to 10, is drawn."""
_REFERENCE_CHARS = 1500
_UNMEASURED = Complexity(0, 0, 0, 0)
_PACK = CompactFormat()


def shard(
    seed: int, number: int, excluded: Collection[str], thought_share: float = 1.0
) -> list[str]:
    """The documents of one shard, in a random order. A function of its arguments alone; no program
    with an excluded key is in it. This share of the answers of deduction comes with its thought,
    the others without: a base that has read both has something to learn."""
    draw, leave_out = (
        stream(seed, "pawn", "documents", number),
        stream(seed, "pawn", "thoughts", number),
    )
    tiers = draw.choices(range(1, 11), TIER_WEIGHTS, k=SHARD)
    programs = [
        next(program for program in _programs(draw, tier) if program.key not in excluded)
        for tier in tiers
    ]
    documents = [
        document
        for program in programs
        for document in _documents(
            program, programs, draw, lambda: leave_out.random() < thought_share
        )
    ]
    draw.shuffle(documents)
    return documents


def _programs(draw: Random, tier: int) -> Iterator[Program]:
    while True:
        yield sample_program(draw, tier)


def _documents(
    program: Program, others: Sequence[Program], draw: Random, thinks: Callable[[], bool]
) -> Iterator[str]:
    inputs = draw.sample(range(len(program.inputs)), 5)
    yield from (solving("code_o", program, number, with_thought=thinks()) for number in inputs[:3])
    yield from (solving("code_i", program, number) for number in inputs[3:])
    yield solving("code_f", program)
    for kind, share in (("code_o", 0.5), ("code_i", 0.5), ("code_f", 0.5)):
        if draw.random() < share:
            near = [
                other
                for other in others
                if abs(other.tier - program.tier) <= 1 and other is not program
            ]
            yield proposing(kind, program, draw.sample(near, min(len(near), draw.randrange(7))))


def problem_of(kind: str, program: Program, number: int = 0) -> Problem:
    """The program as a problem of this kind: with all inputs for induction, else with one of them.
    Its complexity is not measured."""
    some = slice(None) if kind == "code_f" else slice(number, number + 1)
    message = program.hint if kind == "code_f" else ""
    return Problem(
        kind,
        program.text,
        program.inputs[some],
        program.outputs[some],
        program.key,
        _UNMEASURED,
        0,
        message,
    )


def solving(kind: str, program: Program, number: int = 0, with_thought: bool = True) -> str:
    """A problem, on one of the program's inputs, and its answer."""
    problem = problem_of(kind, program, number)
    blocks = _ANSWERS[kind](program, number)
    return _PACK.render(KINDS[kind].ask_answer(problem)).text + write_blocks(
        blocks if with_thought else blocks[-1:]
    )


def _deduced(program: Program, number: int) -> list[Block]:
    trace = program.traces[number]
    return [*([("think", "\n".join(trace))] if trace else []), ("output", program.outputs[number])]


_ANSWERS: dict[str, Callable[[Program, int], list[Block]]] = {
    "code_o": _deduced,
    "code_i": lambda program, number: [("input", program.inputs[number])],
    "code_f": lambda program, number: [("program", program.text)],
}


def proposed_blocks(kind: str, program: Program) -> list[Block]:
    """What a teacher writes who proposes this program; for induction, its inputs."""
    if kind == "code_f":
        return [("message", program.hint), *(("input", given) for given in program.inputs)]
    return [("program", program.text), ("input", program.inputs[0])]


def proposing(kind: str, program: Program, references: Sequence[Program]) -> str:
    """Reference problems, as many as are not too long together, and a new one."""
    shown: list[Problem] = []
    if kind == "code_f":
        shown.append(problem_of("code_o", program))
    else:
        for reference in references:
            if (
                sum(len(problem.program) + 60 for problem in shown) + len(reference.text)
                <= _REFERENCE_CHARS
            ):
                shown.append(problem_of("code_o", reference))
    return _PACK.render(KINDS[kind].ask_proposal(shown)).text + write_blocks(
        proposed_blocks(kind, program)
    )
