"""Documents of the task kind `logic`: small puzzles that the kind has verified, solved and
proposed.

Making a puzzle takes longer than a dozen documents, so each is used several times: with its
variables in other places and its constraints in another order. Reasoning is a search: a line for
each beginning of an assignment, and the first constraint that it breaks.

    1
    1 1: 3
    1 2
    1 2 1: 2
    1 2 3
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from random import Random
from typing import Any

from redqueen.config.stages import VerifyConfig
from redqueen.pawn.programs import is_reserved
from redqueen.records import Problem
from redqueen.rng import stream
from redqueen.tasks.kind import Reject, RunRules, Verified
from redqueen.tasks.logic import KINDS
from redqueen.tasks.logic.generator import random_puzzle
from redqueen.tasks.logic.language import Expression, Puzzle, Value, names, write_puzzle
from redqueen.tasks.logic.solver import compile_test
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

_TIERS, _WEIGHTS = (1, 2, 3), (10, 6, 1)
"""Larger puzzles take too long to read, and to make."""
_USES = 10
"""Documents of each puzzle."""
_PROPOSALS = 3
"""So many of them propose it."""
_PUZZLE_CHARS, _REFERENCE_CHARS = 420, 480
"""Most characters of a puzzle, and of a proposed one with those that are shown before it: Pawn
reads nearly every character of a puzzle as a token of its own."""
_SEARCH_LINES, _SEARCH_CHARS = 40, 400
"""A longer search is not written down."""
_SEED = 605_16729
_FORMAT, _KIND, _RULES = CompactFormat(), KINDS["logic"], RunRules.of(VerifyConfig())


def write_puzzle_documents(rng: Random, wanted: int, reasoning_share: float = 0.0) -> list[str]:
    """So many documents; this share of the solved ones reasons, where the search is short."""
    documents: list[str] = []
    earlier: list[Problem] = []
    while len(documents) < wanted:
        problem = _sample_problem(rng)
        varied = [vary_problem(problem, rng) for _ in range(_USES)]
        documents += [propose_puzzle(other, earlier, rng) for other in varied[:_PROPOSALS]]
        documents += [
            solve_puzzle(other, rng.random() < reasoning_share) for other in varied[_PROPOSALS:]
        ]
        earlier = [*earlier[-20:], problem]
    return rng.sample(documents, wanted)


def _sample_problem(rng: Random, tiers: Sequence[int] = (), held_out: bool = False) -> Problem:
    """A puzzle that the kind accepts: not a trivial one; a reserved one on demand, else none."""
    while True:
        (tier,) = rng.choices(tiers or _TIERS, None if tiers else _WEIGHTS)
        puzzle = random_puzzle(rng, tier)
        if len(write_puzzle(puzzle)) > _PUZZLE_CHARS:
            continue
        try:
            problem = _KIND.verified(puzzle, None, _RULES).problem(_KIND.name)
        except Reject:
            continue
        if is_reserved(puzzle_key(puzzle)) == held_out:
            return problem


def puzzle_key(puzzle: Puzzle) -> str:
    """Equal for puzzles that differ in the names of their variables and in the order of their
    constraints only."""
    names = list(puzzle.variables)
    renamed = (dict(zip(names, others, strict=True)) for others in permutations(names))
    return min(
        repr(sorted(repr(_rename(one, others)) for one in puzzle.constraints)) for others in renamed
    )


def sample_puzzles(rng: Random, count: int, tiers: range) -> list[tuple[str, Puzzle]]:
    """Payloads of puzzles as Pawn knows them, of these tiers or the nearest that it has read."""
    known = [tier for tier in tiers if tier in _TIERS] or [_TIERS[-1]]
    return [(_KIND.name, _sample_problem(rng, known).payload) for _ in range(count)]


def held_out_lines(count: int) -> Iterator[dict[str, Any]]:
    """`heldout-logic`: puzzles that no training document has, tiers in turn."""
    rng = stream(_SEED, "pawn", "heldout-logic")
    seen: set[str] = set()
    while len(seen) < count:
        tier = _TIERS[len(seen) % len(_TIERS)]
        problem = _sample_problem(rng, (tier,), held_out=True)
        if (key := puzzle_key(problem.payload)) not in seen:
            seen.add(key)
            yield {"tier": tier, "puzzle": write_puzzle(problem.payload)}


def read_puzzle_line(line: Mapping[str, Any]) -> Problem:
    """A line of the suite as a problem: its solver is ours, so nothing is taken on trust."""
    puzzle = _KIND.read_proposal([("puzzle", line["puzzle"])], [])
    return _KIND.verified(puzzle, None, _RULES).problem(_KIND.name)


def vary_problem(problem: Problem, rng: Random) -> Problem:
    """The same puzzle with other names for its variables, which all have the same domain, and its
    constraints in another order; solved by the same values."""
    puzzle: Puzzle = problem.payload
    names = list(puzzle.variables)
    others = dict(zip(names, rng.sample(names, len(names)), strict=True))
    constraints = [_rename(one, others) for one in puzzle.constraints]
    rng.shuffle(constraints)
    solution = {others[name]: value for name, value in json.loads(problem.gold[0]).items()}
    gold = _KIND.read_answer([("assignment", json.dumps(solution))])
    varied = Puzzle(puzzle.variables, tuple(constraints))
    identity = (write_puzzle(varied),)
    return Verified(varied, (gold,), problem.features, identity).problem(_KIND.name)


def _rename(part: Expression, others: Mapping[str, str]) -> Expression:
    if not isinstance(part, tuple):
        return others.get(part, part) if isinstance(part, str) else part
    if part[0] == "all_different":
        return part  # of all variables: their order stays
    return (part[0], *(_rename(one, others) for one in part[1:]))


def solve_puzzle(problem: Problem, reasons: bool = False) -> str:
    """A puzzle and its assignment, after a search on demand."""
    prompt = _FORMAT.render(_KIND.ask_answer(problem)).text
    lines = search(problem.payload) if reasons else []
    is_short = 0 < len(lines) <= _SEARCH_LINES and sum(map(len, lines)) <= _SEARCH_CHARS
    blocks = [("think", "\n".join(lines))] if is_short else []
    return prompt + write_blocks([*blocks, ("assignment", problem.gold[0])])


def search(puzzle: Puzzle) -> list[str]:
    """Assignments in order of their values, each as far as no constraint is broken, up to the
    solution."""
    lines: list[str] = []
    _descend(puzzle, [], lines)
    return lines


def _descend(puzzle: Puzzle, values: list[Value], lines: list[str]) -> bool:
    """Whether the solution begins with these values."""
    if len(values) == len(puzzle.variables):
        return True
    domain = list(puzzle.variables.values())[len(values)]
    for value in domain:
        begun = [*values, value]
        broken = _first_broken(puzzle, begun)
        lines.append(" ".join(map(str, begun)) + (f": {broken}" if broken else ""))
        if not broken and _descend(puzzle, begun, lines):
            return True
    return False


def _first_broken(puzzle: Puzzle, values: list[Value]) -> int:
    """Counted from 1; 0 where none is. What is about variables without a value is not looked at."""
    places = {name: place for place, name in enumerate(puzzle.variables)}
    for number, constraint in enumerate(puzzle.constraints, 1):
        if isinstance(constraint, tuple) and constraint[0] == "all_different":
            known = [values[places[name]] for name in constraint[1:] if places[name] < len(values)]
            holds = len(set(known)) == len(known)
        else:
            scope = [places[name] for name in names(constraint) if name in places]
            holds = max(scope, default=0) >= len(values) or compile_test(constraint, places)(values)
        if not holds:
            return number
    return 0


def propose_puzzle(problem: Problem, earlier: Sequence[Problem], rng: Random) -> str:
    """Some earlier puzzles, as many as fit, and a new one."""
    text = write_puzzle(problem.payload)
    shown: list[Problem] = []
    size = len(text)
    for other in rng.sample(earlier, min(len(earlier), 8)):
        size_with = size + sum(len(block) for _, block in _KIND.show(other))
        if size_with <= _REFERENCE_CHARS and len(shown) < _KIND.reference_count:
            shown.append(other)
            size = size_with
    prompt = _FORMAT.render(_KIND.ask_proposal(shown)).text
    return prompt + write_blocks([("puzzle", text)])
