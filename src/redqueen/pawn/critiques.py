"""Documents of the games `critique` and `repair` about deduction: a problem, an attempt at it, and
what a critic, an adviser or its author then writes.

The games themselves ask, and their own readers say which verdict is right and which line is the
first wrong one. Half of the attempts are correct, and half come with reasoning. A critic that
reasons works the problem out, line by line, and ends with what is returned.
"""

from dataclasses import dataclass
from random import Random

from redqueen.pawn.mistakes import near_output, run_with_mistake
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
_ANSWER_ONLY = 0.2
"""Share of the wrong attempts with reasoning whose every line is right."""
_HARMLESS = 0.1
"""Share of the correct attempts with reasoning for which a mistake is looked for that changes
nothing in the end: a wrong line is not yet a wrong answer."""
_BAD_ADVICE = 0.25
"""Share of critiques that mislead the author who reads them."""


Advice = tuple[Block, Block]
"""A critique and a verdict."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An attempt as a critic sees it."""

    lines: tuple[str, ...]
    answer: str


def sample_turn(
    program: Program, problem: Problem, number: int, rng: Random, shows: bool, reasons: bool
) -> str:
    """One turn about an attempt at this problem, the program on the input of this number. `shows`:
    the attempt comes with reasoning; `reasons`: the reply does."""
    attempt = sample_attempt(program, number, rng, rng.random() < 0.5, shows)
    advice = write_advice(program, number, attempt)
    role = rng.choice(_ROLES)
    if role == "repairer":
        if rng.random() < _BAD_ADVICE:
            advice = _mislead(program, number, attempt, rng)
        return write_repair(program, problem, number, attempt, advice, reasons)
    return write_critique(program, problem, number, attempt, advice, reasons, role == "adviser")


def write_critique(
    program: Program,
    problem: Problem,
    number: int,
    attempt: Shown,
    advice: Advice,
    reasons: bool,
    for_author: bool = False,
) -> str:
    """What a critic writes, or an adviser, whose critique the author will read."""
    working = [*program.traces[number], f"return {program.outputs[number]}"]
    blocks: list[Block] = [("think", "\n".join(working))] if reasons else []
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
    reasons: bool,
) -> str:
    """The gold answer after a critique, which may be wrong."""
    request = repairer_request(problem, KINDS[DEDUCTION], _show(attempt), advice)
    trace = program.traces[number]
    blocks: list[Block] = [("think", "\n".join(trace))] if reasons and trace else []
    return _write(request, [*blocks, ("output", program.outputs[number])])


def sample_attempt(
    program: Program, number: int, rng: Random, is_correct: bool, shows: bool
) -> Shown:
    """An attempt, correct or wrong, with its reasoning if it is to be shown."""
    trace, gold = program.traces[number], program.outputs[number]
    true_lines = trace if shows else ()
    way = rng.random()
    if is_correct and not (true_lines and way < _HARMLESS):
        return Shown(true_lines, gold)
    if not is_correct and way < _ANSWER_ONLY:
        return Shown(true_lines, near_output(program, number, rng))
    for _ in range(_TRIES):
        run = run_with_mistake(program, number, rng)
        if run is not None and (run.output == gold) == is_correct:
            return Shown(tuple(run.trace) if shows else (), str(run.output))
    return Shown(true_lines, gold if is_correct else near_output(program, number, rng))


def gold_verdict(program: Program, number: int, attempt: Shown) -> str:
    """What a critic should write about it."""
    if attempt.answer == program.outputs[number]:
        return "correct"
    line = _first_wrong_line(program, number, attempt.lines) if attempt.lines else None
    return "wrong" if line is None else f"wrong, line {line}"


def _first_wrong_line(program: Program, number: int, lines: tuple[str, ...]) -> int | None:
    """As the game finds it from the steps of the run, which begin with the arguments."""
    if lines == program.traces[number]:
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
