"""Random programs as drafts of problems, for archives and for fixed problems. None is of a held-out
suite."""

from collections.abc import Sequence
from functools import cache
from random import Random

from redqueen.pawn.heldout import excluded_keys
from redqueen.pawn.programs import Program, sample_program
from redqueen.tasks import Draft

_excluded = cache(excluded_keys)


def random_drafts(
    draw: Random, count: int, tiers: Sequence[int], kinds: Sequence[str]
) -> list[tuple[str, Draft]]:
    """So many, the kinds in turn, each of a random tier."""
    found: list[tuple[str, Draft]] = []
    while len(found) < count:
        program = sample_program(draw, draw.choice(tiers))
        if program.key not in _excluded():
            kind = kinds[len(found) % len(kinds)]
            found.append((kind, _draft(kind, program)))
    return found


def _draft(kind: str, program: Program) -> Draft:
    if kind == "code_f":
        return Draft(program.text, program.inputs, program.hint)
    return Draft(program.text, program.inputs[:1])
