"""Random programs as drafts of problems, for archives and fixed problems; none from a held-out
suite."""

from collections.abc import Sequence
from functools import cache
from random import Random

from redqueen.pawn.heldout import excluded_keys
from redqueen.pawn.programs import Program, sample_program
from redqueen.tasks import Draft

_excluded = cache(excluded_keys)


def random_drafts(
    rng: Random, count: int, tiers: Sequence[int], kinds: Sequence[str]
) -> list[tuple[str, Draft]]:
    """This many drafts, the kinds in turn, each of a random tier."""
    drafts: list[tuple[str, Draft]] = []
    while len(drafts) < count:
        program = sample_program(rng, rng.choice(tiers))
        if program.key not in _excluded():
            kind = kinds[len(drafts) % len(kinds)]
            drafts.append((kind, _make_draft(kind, program)))
    return drafts


def _make_draft(kind: str, program: Program) -> Draft:
    if kind == "code_f":
        return Draft(program.text, program.inputs, program.hint)
    return Draft(program.text, program.inputs[:1])
