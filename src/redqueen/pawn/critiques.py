"""Documents of the games `critique` and `repair` about deduction: a problem, an attempt at it, and
what a critic, an adviser or its author then writes.

The games themselves ask, and their own readers say which verdict is right and which line is the
first wrong one. Half of the attempts are correct, and most come with reasoning. A critic that
reasons works the problem out, line by line, and ends with what is returned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from redqueen.pawn.careful import MARK, careful_trace
from redqueen.pawn.mistakes import mistaken_attempt, near_output
from redqueen.pawn.programs import Program
from redqueen.records import Problem
from redqueen.sandbox.literals import canonical
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.programs import DEDUCTION
from redqueen.tasks.code.trace import Trace, first_departure
from redqueen.tasks.games.critique import critic_request
from redqueen.tasks.games.game import show_attempt
from redqueen.tasks.games.repair import adviser_request, repairer_request
from redqueen.tasks.kind import Block, Request
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

_FORMAT = CompactFormat()
_ROLES = ("critic",) * 8 + ("adviser", "repairer")
_TRIES = 4
_HARMLESS = 0.1
"""Share of the correct attempts with reasoning for which a mistake is looked for that changes
nothing in the end: a wrong line is not yet a wrong answer."""
_BAD_ADVICE = 0.25
"""Share of critiques that mislead the author who reads them."""
_CARE = (0.0, 1.0, 1.0, 2.0)
"""Students learn to work more out, or less, than the base: what an attempt has of it, times the
base's share."""

Advice = tuple[Block, Block]
"""A critique and a verdict."""
Lines = Sequence[str]
"""Of a reasoning."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An attempt as a critic sees it."""

    lines: tuple[str, ...]
    answer: str


def sample_turn(
    program: Program,
    problem: Problem,
    number: int,
    rng: Random,
    shows: bool,
    reasons: bool,
    careful_share: float = 0.0,
) -> str:
    """One turn about an attempt at this problem, the program on the input of this number. `shows`:
    the attempt comes with reasoning; `reasons`: the reply does, and this share of its steps is
    worked out."""
    care = careful_share * rng.choice(_CARE)
    attempt = sample_attempt(program, number, rng, rng.random() < 0.5, shows, care)
    advice = write_advice(program, number, attempt)
    role = rng.choice(_ROLES)
    working = _trace(program, number, rng, careful_share) if reasons else None
    if role == "repairer":
        if rng.random() < _BAD_ADVICE:
            advice = _mislead(program, number, attempt, rng)
        return write_repair(program, problem, number, attempt, advice, working)
    return write_critique(program, problem, number, attempt, advice, working, role == "adviser")


def write_critique(
    program: Program,
    problem: Problem,
    number: int,
    attempt: Shown,
    advice: Advice,
    working: Lines | None,
    for_author: bool = False,
) -> str:
    """What a critic writes after its working, or an adviser, whose critique the author will
    read."""
    blocks: list[Block] = []
    if working is not None:
        blocks = [("think", "\n".join([*working, f"return {program.outputs[number]}"]))]
    if for_author:
        request = adviser_request(problem, KINDS[DEDUCTION], _show(attempt))
        return _write(request, [*blocks, *advice])
    reasoning = "\n".join(attempt.lines)
    request = critic_request(problem, KINDS[DEDUCTION], reasoning, attempt.answer)
    return _write(request, [*blocks, advice[1]])


def write_repair(
    program: Program,
    problem: Problem,
    number: int,
    attempt: Shown,
    advice: Advice,
    working: Lines | None,
) -> str:
    """The gold answer after a critique, which may be wrong."""
    request = repairer_request(problem, KINDS[DEDUCTION], _show(attempt), advice)
    blocks: list[Block] = [("think", "\n".join(working))] if working else []
    return _write(request, [*blocks, ("output", program.outputs[number])])


def sample_attempt(
    program: Program,
    number: int,
    rng: Random,
    is_correct: bool,
    shows: bool,
    careful_share: float = 0.0,
) -> Shown:
    """An attempt, correct or wrong, with its reasoning if it is to be shown."""
    gold, arguments = program.outputs[number], program.inputs[number]
    if not is_correct or (shows and rng.random() < _HARMLESS):
        for _ in range(_TRIES):
            found = mistaken_attempt(program.text, arguments, _coin(rng, careful_share), rng)
            if found is not None and (found[1] == gold) == is_correct:
                return Shown(tuple(found[0]) if shows else (), found[1])
    lines = _trace(program, number, rng, careful_share) if shows else ()
    return Shown(tuple(lines), gold if is_correct else near_output(program, number, rng))


def _trace(program: Program, number: int, rng: Random, careful_share: float) -> Lines:
    if not careful_share:
        return program.traces[number]
    return careful_trace(program.text, program.inputs[number], _coin(rng, careful_share))


def _coin(rng: Random, share: float) -> Callable[[], bool]:
    return lambda: rng.random() < share


def gold_verdict(program: Program, number: int, attempt: Shown) -> str:
    """What a critic should write about it."""
    if attempt.answer == program.outputs[number]:
        return "correct"
    line = _first_wrong_line(program, number, attempt.lines) if attempt.lines else None
    return "wrong" if line is None else f"wrong, line {line}"


def _first_wrong_line(program: Program, number: int, lines: tuple[str, ...]) -> int | None:
    """As the game finds it from the steps of the run, which begin with the arguments."""
    if tuple(line for line in lines if not line.startswith(MARK)) == program.traces[number]:
        return None
    names = program.text.partition("(")[2].partition(")")[0].split(", ")
    given = [(name, canonical(program.starts[number][name])) for name in names]
    steps = [_step(line) for line in program.traces[number]]
    line = first_departure("\n".join(lines), Trace((*given, *steps), len(given), complete=True))
    return None if line is None else line + 1


def _step(line: str) -> tuple[str, str]:
    name, _, value = line.partition(" = ")
    return name, value


def write_advice(program: Program, number: int, attempt: Shown) -> Advice:
    """Pawn has no words: a critique is the first wrong line as it should be, else what is
    returned."""
    verdict, trace = gold_verdict(program, number, attempt), program.traces[number]
    line = int(verdict.rpartition(" ")[2]) if "line" in verdict else 0
    critique = f"return {program.outputs[number]}"
    if 0 < line <= len(trace):
        critique = f"{line}: {trace[line - 1]}"
    return ("critique", critique), ("verdict", verdict)


def _mislead(program: Program, number: int, attempt: Shown, rng: Random) -> Advice:
    """A critique that is wrong about the attempt."""
    if attempt.answer == program.outputs[number]:
        other = near_output(program, number, rng)
        return ("critique", f"return {other}"), ("verdict", "wrong")
    return ("critique", f"return {attempt.answer}"), ("verdict", "correct")


def _show(attempt: Shown) -> tuple[Block, ...]:
    return show_attempt("\n".join(attempt.lines), attempt.answer)


def _write(request: Request, blocks: list[Block]) -> str:
    return _FORMAT.render(request).text + write_blocks(blocks)
