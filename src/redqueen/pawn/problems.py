"""Random programs and puzzles as problems to be verified, for archives and for fixed problems.
None is of a held-out suite."""

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from redqueen.pawn.heldout import excluded_keys
from redqueen.pawn.programs import Program, is_reserved, sample_program
from redqueen.pawn.puzzles import sample_puzzles
from redqueen.tasks.code.programs import ABDUCTION, DEDUCTION, INDUCTION, Code

_PROGRAMS = (DEDUCTION, ABDUCTION, INDUCTION)
_excluded = cache(excluded_keys)


def random_payloads(
    rng: Random, count: int, tiers: range, kinds: Sequence[str]
) -> list[tuple[str, Code]]:
    """Random programs as Pawn knows them: the kinds in turn, each of a random tier; deduction where
    no kind is named."""
    kinds = [kind for kind in kinds or (DEDUCTION,) if kind in _PROGRAMS]
    payloads: list[tuple[str, Code]] = []
    while kinds and len(payloads) < count:
        program = sample_program(rng, rng.choice(tiers))
        if program.key not in _excluded() and not is_reserved(program.key):
            kind = kinds[len(payloads) % len(kinds)]
            payloads.append((kind, _payload(kind, program)))
    return payloads


def random_games(
    rng: Random, count: int, tiers: range, kinds: Sequence[str]
) -> list[tuple[str, Any]]:
    """Random programs and logic puzzles, half and half, for `pawn-games`; of the kinds that are
    named."""
    only_puzzles = bool(kinds) and not set(kinds) & set(_PROGRAMS)
    puzzles = [
        row
        for row in sample_puzzles(rng, count if only_puzzles else count // 2, tiers)
        if not kinds or row[0] in kinds
    ]
    return [*random_payloads(rng, count - len(puzzles), tiers, kinds), *puzzles]


def _payload(kind: str, program: Program) -> Code:
    if kind == INDUCTION:
        return Code(program.text, program.inputs, program.hint)
    return Code(program.text, program.inputs[:1])
