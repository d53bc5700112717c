"""Selection: who dies and who breeds, from the ratings of one role's members. Fitness is the
rating's lower bound, mu - 3 sigma.

Pure functions of standings and a random stream. A row of `SELECTIONS` is `(standings, count,
settings, rng) -> Selected`: `count` members die, and each death has its parents, two where two
survive.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from redqueen.config.section import Section


@dataclass(frozen=True, slots=True)
class Standing:
    """How a member stands when selection looks at it."""

    member: str
    role: str
    mu: float
    sigma: float
    learning_rate: float = 0.0
    """Its own, where members have their own."""
    temperature: float = 1.0
    """Its own, where members have their own."""

    @property
    def fitness(self) -> float:
        return self.mu - 3 * self.sigma


@dataclass(frozen=True, slots=True)
class Selected:
    dead: tuple[Standing, ...]
    parents: tuple[tuple[Standing, ...], ...]
    """For each death the parents, in the order drawn: two different survivors, or the only one."""


class Truncation(Section):
    """The weakest die, the strongest breed."""

    type: Literal["truncation"] = "truncation"
    parent_share: float = Field(default=0.5, gt=0, le=1)
    """Parents are drawn from this share of the members, the strongest; at least two, where two
    survive."""


class Tournament(Section):
    """Members drawn at random meet: the weakest of them dies, the strongest of others breeds."""

    type: Literal["tournament"] = "tournament"
    size: int = Field(default=3, ge=2)
    """Members that meet."""


def _by_name(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


SelectionSettings = Annotated[
    Truncation | Tournament, Field(discriminator="type"), BeforeValidator(_by_name)
]


def deaths(members: int, share: float) -> int:
    """How many of a role's members are replaced: the share, rounded down, and never the last one."""
    return min(math.floor(share * members + 1e-9), members - 1) if members else 0


def ranked(standings: Sequence[Standing], rng: Random) -> list[Standing]:
    """The fittest first; equals in random order, so that nobody dies for its place in a list."""
    return sorted(rng.sample(standings, len(standings)), key=lambda standing: -standing.fitness)


def truncation(
    standings: Sequence[Standing], count: int, settings: Truncation, rng: Random
) -> Selected:
    order = ranked(standings, rng)
    survivors = order[: len(order) - count]
    top = survivors[: max(2, math.ceil(settings.parent_share * len(order)))]
    return Selected(
        tuple(order[len(survivors) :]),
        tuple(tuple(rng.sample(top, min(2, len(top)))) for _ in range(count)),
    )


def tournament(
    standings: Sequence[Standing], count: int, settings: Tournament, rng: Random
) -> Selected:
    survivors, dead = ranked(standings, rng), []
    for _ in range(count):
        dead.append(_meet(survivors, settings.size, rng)[-1])
        survivors.remove(dead[-1])
    return Selected(tuple(dead), tuple(_two(survivors, settings.size, rng) for _ in range(count)))


def _meet(order: Sequence[Standing], size: int, rng: Random) -> list[Standing]:
    """Some of them by chance, in the order in which they stand."""
    places = sorted(rng.sample(range(len(order)), min(size, len(order))))
    return [order[place] for place in places]


def _two(survivors: Sequence[Standing], size: int, rng: Random) -> tuple[Standing, ...]:
    first = _meet(survivors, size, rng)[0]
    others = [standing for standing in survivors if standing is not first]
    return (first, _meet(others, size, rng)[0]) if others else (first,)


SELECTIONS: dict[str, Callable[[Sequence[Standing], int, Any, Random], Selected]] = {
    "truncation": truncation,
    "tournament": tournament,
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A member as it was once: what a hall of fame may keep."""

    member: str
    version: int
    step: int
    fitness: float


def hall_of_fame(past: Sequence[Snapshot], size: int) -> list[Snapshot]:
    """Up to `size` snapshots, spread over the run: the time so far is cut into as many eras, and
    each gives its fittest. Ratings are compared within an era only, since they drift."""
    if not past or size < 1:
        return []
    first, last = min(snapshot.step for snapshot in past), max(snapshot.step for snapshot in past)
    best: dict[int, Snapshot] = {}
    for snapshot in sorted(
        past, key=lambda snapshot: (snapshot.step, snapshot.member, snapshot.version)
    ):
        era = min(size - 1, (snapshot.step - first) * size // max(1, last - first))
        if era not in best or snapshot.fitness > best[era].fitness:
            best[era] = snapshot
    return [best[era] for era in sorted(best)]
