"""Selection: who dies and who breeds, from the fitness of one role's members.

Pure functions of standings and random numbers. A row of `SELECTIONS` is `(standings, count,
settings, rng) -> Selected`: `count` members die, and each death has its parents, two where two
survive.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import Field

from redqueen.config.registry import Choice, Entry, Registry
from redqueen.core.world import PastMember


@dataclass(frozen=True, slots=True)
class Standing:
    """How a member stands when selection looks at it."""

    member: str
    role: str
    mu: float
    sigma: float
    fitness: float
    measure: str = "rating"
    """What its fitness is a measure of, by name."""
    learning_rate: float = 0.0
    """Its own, where members have their own."""
    temperature: float = 1.0
    """Its own, where members have their own."""
    cases: tuple[float, ...] = ()
    """Correct answers to each problem of the exam, for those who took one."""


@dataclass(frozen=True, slots=True)
class Selected:
    dead: tuple[Standing, ...]
    parents: tuple[tuple[Standing, ...], ...]
    """For each death the parents, in the order drawn: two different survivors, or the only one."""


class Truncation(Choice):
    parent_share: float = Field(default=0.5, gt=0, le=1)
    """Parents are drawn from this share of the members, the strongest; at least two, where two
    survive."""


class Tournament(Choice):
    size: int = Field(default=3, ge=2)
    """Members that meet."""


class Lexicase(Choice):
    draws: int = Field(default=400, ge=1)
    """Random orders that decide who dies."""


def count_deaths(members: int, share: float) -> int:
    """How many of a role's members are replaced: the share, rounded down, never the last one."""
    return min(math.floor(share * members + 1e-9), members - 1) if members else 0


def rank(standings: Sequence[Standing], rng: Random) -> list[Standing]:
    """The fittest first; equals in random order, so that nobody dies for its place in a list."""
    return sorted(rng.sample(standings, len(standings)), key=lambda standing: -standing.fitness)


def truncation(
    standings: Sequence[Standing], count: int, settings: Truncation, rng: Random
) -> Selected:
    """The weakest die, the strongest breed."""
    order = rank(standings, rng)
    survivors = order[: len(order) - count]
    top = survivors[: max(2, math.ceil(settings.parent_share * len(order)))]
    return Selected(
        tuple(order[len(survivors) :]),
        tuple(tuple(rng.sample(top, min(2, len(top)))) for _ in range(count)),
    )


def tournament(
    standings: Sequence[Standing], count: int, settings: Tournament, rng: Random
) -> Selected:
    """Members chosen at random meet: the weakest of them dies, the strongest of others breeds."""
    survivors, dead = rank(standings, rng), []
    for _ in range(count):
        dead.append(_meet(survivors, settings.size, rng)[-1])
        survivors.remove(dead[-1])
    return Selected(tuple(dead), tuple(_two(survivors, settings.size, rng) for _ in range(count)))


def lexicase(
    standings: Sequence[Standing], count: int, settings: Lexicase, rng: Random
) -> Selected:
    """By the problems of the exam, one after another in random order (Spector 2012). Whoever wins
    least often dies; whoever alone solves something may breed. Members without an exam, such as
    teachers, are selected as in `truncation`."""
    sizes = {len(standing.cases) for standing in standings}
    if len(sizes) != 1 or sizes == {0}:
        return truncation(standings, count, Truncation(type="truncation"), rng)
    order = rank(standings, rng)
    wins = Counter(_win_by_cases(order, rng).member for _ in range(settings.draws))
    order.sort(key=lambda standing: -wins[standing.member])  # stable: ties by fitness
    survivors = order[: len(order) - count]
    return Selected(
        tuple(order[len(survivors) :]),
        tuple(_two_by_cases(survivors, rng) for _ in range(count)),
    )


def _win_by_cases(members: Sequence[Standing], rng: Random) -> Standing:
    """Case by case, only the best go on."""
    left = list(members)
    cases = range(len(left[0].cases))
    for case in rng.sample(cases, len(cases)):
        most = max(standing.cases[case] for standing in left)
        left = [standing for standing in left if standing.cases[case] == most]
        if len(left) == 1:
            break
    return rng.choice(left)


def _two_by_cases(survivors: Sequence[Standing], rng: Random) -> tuple[Standing, ...]:
    first = _win_by_cases(survivors, rng)
    others = [standing for standing in survivors if standing is not first]
    return (first, _win_by_cases(others, rng)) if others else (first,)


def _meet(order: Sequence[Standing], size: int, rng: Random) -> list[Standing]:
    """Some of them by chance, in the order in which they stand."""
    places = sorted(rng.sample(range(len(order)), min(size, len(order))))
    return [order[place] for place in places]


def _two(survivors: Sequence[Standing], size: int, rng: Random) -> tuple[Standing, ...]:
    first = _meet(survivors, size, rng)[0]
    others = [standing for standing in survivors if standing is not first]
    return (first, _meet(others, size, rng)[0]) if others else (first,)


Selection = Callable[[Sequence[Standing], int, Any, Random], Selected]

SELECTIONS: Registry[Selection] = Registry(
    "selection",
    {
        "truncation": Entry(truncation, Truncation),
        "tournament": Entry(tournament, Tournament),
        "lexicase": Entry(lexicase, Lexicase),
    },
)


def spread_over_run(past: Sequence[PastMember], size: int) -> list[PastMember]:
    """Up to `size` past members, spread over the run: the time so far is cut into as many eras, and
    each gives its fittest. Fitness is compared within an era only: it is relative to the others of
    its time."""
    if not past or size < 1:
        return []
    steps = [veteran.step for veteran in past]
    first, last = min(steps), max(steps)
    best: dict[int, PastMember] = {}
    for veteran in sorted(past, key=lambda past: (past.step, past.member.id, past.member.version)):
        era = min(size - 1, (veteran.step - first) * size // max(1, last - first))
        if era not in best or veteran.fitness > best[era].fitness:
            best[era] = veteran
    return [best[era] for era in sorted(best)]
