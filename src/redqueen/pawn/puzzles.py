"""Documents of the task kind `logic`: small puzzles that the kind has verified, solved and
proposed.

Making a puzzle takes longer than a dozen documents, so each is used several times: with its
variables in other places and its constraints in another order.
"""

import json
from collections.abc import Mapping, Sequence
from random import Random

from redqueen.config.stages import VerifyConfig
from redqueen.records import Problem
from redqueen.tasks.kind import Reject, RunRules, Verified
from redqueen.tasks.logic import KINDS
from redqueen.tasks.logic.generator import random_puzzle
from redqueen.tasks.logic.language import Expression, Puzzle, write_puzzle
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
_FORMAT, _KIND, _RULES = CompactFormat(), KINDS["logic"], RunRules.of(VerifyConfig())


def write_puzzle_documents(rng: Random, wanted: int) -> list[str]:
    """So many documents."""
    documents: list[str] = []
    earlier: list[Problem] = []
    while len(documents) < wanted:
        problem = _sample_problem(rng)
        varied = [vary_problem(problem, rng) for _ in range(_USES)]
        documents += [propose_puzzle(other, earlier, rng) for other in varied[:_PROPOSALS]]
        documents += [solve_puzzle(other) for other in varied[_PROPOSALS:]]
        earlier = [*earlier[-20:], problem]
    return rng.sample(documents, wanted)


def _sample_problem(rng: Random) -> Problem:
    """A puzzle that the kind accepts: not a trivial one."""
    while True:
        (tier,) = rng.choices(_TIERS, _WEIGHTS)
        puzzle = random_puzzle(rng, tier)
        if len(write_puzzle(puzzle)) > _PUZZLE_CHARS:
            continue
        try:
            return _KIND.verified(puzzle, None, _RULES).problem(_KIND.name)
        except Reject:
            continue


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


def solve_puzzle(problem: Problem) -> str:
    """A puzzle and its assignment."""
    prompt = _FORMAT.render(_KIND.ask_answer(problem)).text
    return prompt + write_blocks([("assignment", problem.gold[0])])


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
