"""Random programs as problems to be verified, for archives and for fixed problems. None is of a
held-out suite."""

from collections.abc import Sequence
from functools import cache
from random import Random

from redqueen.pawn.heldout import excluded_keys
from redqueen.pawn.programs import Program, is_reserved, sample_program
from redqueen.tasks.code.programs import ABDUCTION, DEDUCTION, INDUCTION, Code

_excluded = cache(excluded_keys)


def random_payloads(
    rng: Random, count: int, tiers: range, kinds: Sequence[str]
) -> list[tuple[str, Code]]:
    """That many, the kinds in turn, each of a random tier; deduction where no kind is named."""
    kinds = [kind for kind in kinds or (DEDUCTION,) if kind in (DEDUCTION, ABDUCTION, INDUCTION)]
    payloads: list[tuple[str, Code]] = []
    while kinds and len(payloads) < count:
        program = sample_program(rng, rng.choice(tiers))
        if program.key not in _excluded() and not is_reserved(program.key):
            kind = kinds[len(payloads) % len(kinds)]
            payloads.append((kind, _payload(kind, program)))
    return payloads


def _payload(kind: str, program: Program) -> Code:
    if kind == INDUCTION:
        return Code(program.text, program.inputs, program.hint)
    return Code(program.text, program.inputs[:1])
