"""What people prefer, from the pairs of problems that they compared: a Bradley-Terry fit.

The chance that one problem is found better than another is logistic in the difference of their
strengths, and a problem is as strong as its teacher and its structure together. So something is
known of a new problem whose teacher or structure was compared before; of others nothing, and they
are as good as the average.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_PRIOR = 1 / 2.0**2
"""Precision of the prior on strengths, two logits wide: what was always preferred has a finite
one."""
_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class Strengths:
    """Of teachers and structures, in logits; 0 for the average and for what was never compared."""

    by_name: Mapping[str, float]

    def of(self, *names: str) -> float:
        """Of a problem that has these."""
        return math.fsum(self.by_name.get(name, 0.0) for name in names)

    def preference(self, *names: str) -> float:
        """From -1 to 1: how much more often it would win against an average problem than lose."""
        return math.tanh(self.of(*names) / 2)


def fit_bradley_terry(
    comparisons: Sequence[tuple[Sequence[str], Sequence[str]]],
) -> dict[str, float]:
    """The likeliest strengths in logits, by name, from pairs of which the first was found better.
    Each side has the names whose strengths add up to its own."""
    uses: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, (better, worse) in enumerate(comparisons):
        for names, sign in ((better, 1), (worse, -1)):
            for name in names:
                uses[name].append((place, sign))
    strengths = dict.fromkeys(uses, 0.0)
    leads = [0.0] * len(comparisons)
    for _ in range(_ROUNDS):
        moved = 0.0
        for name, places in uses.items():
            step = _step(strengths[name], places, leads)
            strengths[name] += step
            moved += abs(step)
            for place, sign in places:
                leads[place] += sign * step
        if moved < 1e-6:
            break
    return strengths


def _step(strength: float, places: Sequence[tuple[int, int]], leads: Sequence[float]) -> float:
    """A damped Newton step for one name. What stands on both sides of a pair takes no part in
    it."""
    signs: dict[int, int] = defaultdict(int)
    for place, sign in places:
        signs[place] += sign
    chances = [(sign, 1 / (1 + math.exp(-leads[place]))) for place, sign in signs.items()]
    gradient = math.fsum(sign * (1 - chance) for sign, chance in chances) - _PRIOR * strength
    curvature = math.fsum(sign * sign * p * (1 - p) for sign, p in chances) + _PRIOR
    return max(-1.0, min(1.0, gradient / curvature))
