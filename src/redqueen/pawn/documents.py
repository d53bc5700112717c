"""The documents Pawn is pre-trained on: proposing and solving documents of every task kind, in the
compact prompt format.

The task kinds themselves render them, so that Pawn has learned to continue exactly what a run asks.
A solving document of deduction may contain a trace of the run as its reasoning; a proposing
document shows problems of about one tier and continues with one like them. On demand there are
also turns of games (`critiques.py`) and logic puzzles (`puzzles.py`).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from redqueen.pawn.careful import careful_trace
from redqueen.pawn.critiques import sample_turn
from redqueen.pawn.programs import INPUTS, Program, is_reserved, sample_program
from redqueen.pawn.puzzles import write_puzzle_documents
from redqueen.records import Problem
from redqueen.rng import stream
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.programs import ABDUCTION, DEDUCTION, INDUCTION, Code
from redqueen.tasks.kind import Block, Verified
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

SHARD = 256
"""Programs in a shard of documents."""
TIER_WEIGHTS = (14, 13, 13, 12, 11, 10, 9, 8, 5, 5)
"""How often each tier, from 1 to 10, is sampled."""
_REFERENCE_CHARS = 1500
_SHOWN = 0.9
"""Share of the attempts in critiques that come with reasoning, as nearly all of Pawn's do."""
_FORMAT = CompactFormat()


def make_shard(
    seed: int,
    number: int,
    excluded: Collection[str],
    reasoning_share: float = 1.0,
    reasoning_tier: int = 10,
    solving_tier: int = 10,
    careful_share: float = 0.0,
    critique_share: float = 0.0,
    logic_share: float = 0.0,
    turn_reasoning_share: float = 0.4,
) -> list[str]:
    """The documents of one shard, in random order: a function of its arguments alone. It contains
    no program with an excluded or a reserved key. Up to `reasoning_tier` this share of deduction
    answers comes with reasoning, the others without; of the steps of a reasoning, `careful_share`
    are worked out; problems above `solving_tier` are posed and never solved. A base that has not
    seen everything leaves something to learn.

    The shares of critiques and puzzles are of all documents: those of programs are the same with
    any of them. Of both, `turn_reasoning_share` come with reasoning."""
    rng = stream(seed, "pawn", "documents", number)
    reasoning_rng = stream(seed, "pawn", "thoughts", number)  # the name fixes the documents
    careful_rng = stream(seed, "pawn", "careful", number)
    tiers = rng.choices(range(1, 11), TIER_WEIGHTS, k=SHARD)
    programs = [
        next(
            program
            for program in _sample_programs(rng, tier)
            if program.key not in excluded and not is_reserved(program.key)
        )
        for tier in tiers
    ]
    documents = [
        document
        for program in programs
        for document in _write_documents(
            program,
            programs,
            rng,
            # drawn in any case: documents of lower tiers are the same with any reasoning_tier
            lambda tier: (reasoning_rng.random() < reasoning_share) & (tier <= reasoning_tier),
            solving_tier,
            (lambda: careful_rng.random() < careful_share) if careful_share else None,
        )
    ]
    each = len(documents) / (1 - critique_share - logic_share)
    if critique_share:
        solved = [program for program in programs if program.tier <= solving_tier]
        turns = _Turns(turn_reasoning_share, reasoning_tier, careful_share)
        documents += turns.write(solved, round(each * critique_share), seed, number)
    if logic_share:
        puzzle_rng = stream(seed, "pawn", "puzzles", number)
        wanted = round(each * logic_share)
        documents += write_puzzle_documents(puzzle_rng, wanted, turn_reasoning_share)
    rng.shuffle(documents)
    return documents


@dataclass(frozen=True, slots=True)
class _Turns:
    """Turns of games about attempts at programs: this share of them reasons first."""

    reasoning_share: float
    reasoning_tier: int
    careful_share: float

    def write(
        self, programs: Sequence[Program], wanted: int, seed: int, shard: int
    ) -> Iterator[str]:
        rng = stream(seed, "pawn", "critiques", shard)
        for _ in range(wanted if programs else 0):
            program, place = rng.choice(programs), rng.randrange(INPUTS)
            shows, reasons = rng.random() < _SHOWN, rng.random() < self.reasoning_share
            may = program.tier <= self.reasoning_tier
            problem = make_problem(DEDUCTION, program, place)
            yield sample_turn(
                program, problem, place, rng, shows and may, reasons and may, self.careful_share
            )


def _sample_programs(rng: Random, tier: int) -> Iterator[Program]:
    while True:
        yield sample_program(rng, tier)


def _write_documents(
    program: Program,
    others: Sequence[Program],
    rng: Random,
    has_reasoning: Callable[[int], bool],
    solving_tier: int,
    is_careful: Callable[[], bool] | None,
) -> Iterator[str]:
    inputs = rng.sample(range(len(program.inputs)), 5)
    if program.tier <= solving_tier:
        for number in inputs[:3]:
            reasons = has_reasoning(program.tier)
            yield write_solution(DEDUCTION, program, number, reasons, is_careful)
        for number in inputs[3:]:
            yield write_solution(ABDUCTION, program, number)
        yield write_solution(INDUCTION, program)
    for kind in (DEDUCTION, ABDUCTION, INDUCTION):
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
    shown = slice(None) if kind == INDUCTION else slice(number, number + 1)
    message = program.hint if kind == INDUCTION else ""
    code = Code(program.text, program.inputs[shown], message, program.key)
    identity = (program.key, *code.inputs)
    return Verified(code, program.outputs[shown], {}, identity).problem(kind)


def write_solution(
    kind: str,
    program: Program,
    number: int = 0,
    with_reasoning: bool = True,
    is_careful: Callable[[], bool] | None = None,
) -> str:
    """A problem on one of the program's inputs, and its answer; with reasoning, `is_careful` says
    step by step whether it is worked out."""
    prompt = _FORMAT.render(KINDS[kind].ask_answer(make_problem(kind, program, number))).text
    blocks = _ANSWERS[kind](program, number)
    if with_reasoning and is_careful is not None and kind == DEDUCTION:
        lines = careful_trace(program.text, program.inputs[number], is_careful)
        blocks = [*([("think", "\n".join(lines))] if lines else []), blocks[-1]]
    return prompt + write_blocks(blocks if with_reasoning else blocks[-1:])


def _answer_deduction(program: Program, number: int) -> list[Block]:
    trace = program.traces[number]
    return [*([("think", "\n".join(trace))] if trace else []), ("output", program.outputs[number])]


_ANSWERS: dict[str, Callable[[Program, int], list[Block]]] = {
    DEDUCTION: _answer_deduction,
    ABDUCTION: lambda program, number: [("input", program.inputs[number])],
    INDUCTION: lambda program, number: [("program", program.text)],
}


def proposal_blocks(kind: str, program: Program) -> list[Block]:
    """What a teacher writes to propose this program; for induction, to propose inputs for it."""
    if kind == INDUCTION:
        return [("message", program.hint), *(("input", text) for text in program.inputs)]
    return [("program", program.text), ("input", program.inputs[0])]


def write_proposal(kind: str, program: Program, references: Sequence[Program]) -> str:
    """Reference problems, as many as fit, and a new problem."""
    shown: list[Problem] = []
    if kind == INDUCTION:
        shown.append(make_problem(DEDUCTION, program))
    else:
        for reference in references:
            size = sum(len(problem.payload.program) + 60 for problem in shown) + len(reference.text)
            if size <= _REFERENCE_CHARS:
                shown.append(make_problem(DEDUCTION, reference))
    prompt = _FORMAT.render(KINDS[kind].ask_proposal(shown)).text
    return prompt + write_blocks(proposal_blocks(kind, program))
