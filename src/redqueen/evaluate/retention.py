"""The retention test: does a child return to its parent's level, and sooner than a trivial one of
the same cost?

Children of trained students, one for each operator and seed, and the two parents themselves, all
slots of one stack. In every update all attempt the same fixed problems; the children learn from
them, the parents do not. A child is back when, over the last few updates, it solves as many as its
better parent. Controls are `copy_parent` (nothing was changed) and `linear` (the plain mean).
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.config.schema import Config
from redqueen.core.build import open_engine, open_ports, read_arms, read_fingerprint
from redqueen.core.state import StepState
from redqueen.core.step import play_step
from redqueen.core.world import new_world
from redqueen.errors import ConfigError
from redqueen.ledger.members import load_adapters, newest_checkpoint, saved_members
from redqueen.ledger.store import about_of, reader
from redqueen.records import Member, Rating
from redqueen.rng import seed_for
from redqueen.stages.evolve.breed import breed
from redqueen.stages.evolve.cross import CROSSOVERS
from redqueen.stages.evolve.mutate import MUTATIONS
from redqueen.stages.evolve.operator import OperatorSettings
from redqueen.stages.evolve.plan import PlannedOperator
from redqueen.tasks.sources import Source, load_source

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

CONTROLS = ("copy_parent", "linear")

_LAST = 3
"""Updates that a level is averaged over."""


@dataclass(frozen=True, slots=True)
class Retained:
    """What came of the children of one operator."""

    operator: str
    at_birth: float
    """Their mean level in the first update, less the better parent's on the same problems."""
    at_end: float
    """The same, over the last updates."""
    updates: list[int | None]
    """Until each child was back; None where it was not."""

    @property
    def passes(self) -> bool:
        return all(count is not None for count in self.updates)


def retention(
    folder: Path,
    operators: Sequence[str],
    seeds: int,
    updates: int,
    problems: int,
    base: str | None,
    say: Callable[[int, int], None],
) -> list[Retained]:
    """Parents are the two best students of a run, as they are in its newest checkpoint."""
    config, parents = _parents(folder, base)
    children = [(name, seed) for name in operators for seed in range(seeds)]
    config = config.with_settings(
        population={"teachers": 0, "students": len(children) + 2, "learning_rates": ()},
        fixed={"problems": problems},
        evolve={"every": 0, "hall_of_fame": {"size": 0}},
        match={"scheme": "pfsp"},
    )
    with ExitStack() as stack:
        engine = open_engine(stack, [config], read_fingerprint(folder), base)
        ports = open_ports(stack, config, engine)
        source = _same_for_all(load_source(config.fixed, config.tasks.kinds))
        world = new_world(0, "retention", config, 0, (), source)
        for slot, weights in enumerate(
            [*parents, *(_child(name, parents, seed) for name, seed in children)]
        ):
            engine.write(slot, weights, reset_optimizer=True)
        world.members = [
            replace(member, learning_rate=0.0 if member.slot < 2 else None)
            for member in world.members
        ]
        levels: list[list[float]] = []
        for step in range(1, updates + 1):
            state = StepState(world, step)
            play_step([state], ports)
            levels.append([_level(state, member) for member in world.members])
            say(step, updates)
    return [
        _retained(
            name, [number + 2 for number, (one, _) in enumerate(children) if one == name], levels
        )
        for name in operators
    ]


def _parents(folder: Path, base: str | None) -> tuple[Config, "list[Adapter]"]:
    """The run's settings, and the weights of its two best students, the better one first."""
    with closing(reader(folder)) as connection:
        about = about_of(connection)
    found = newest_checkpoint(folder)
    students = [member for member in saved_members(found, 0) if member.role != "teacher"]
    best = sorted(students, key=lambda member: -Rating(member.mu, member.sigma).bound)[:2]
    if len(best) < 2:
        raise ConfigError(f"{folder} has one student, and a crossover needs two")
    return read_arms(folder)[0][1], load_adapters(about, found, best, base)[1]


def _child(name: str, parents: "Sequence[Adapter]", seed: int) -> "Adapter":
    crosses = name in CROSSOVERS
    settings = (CROSSOVERS if crosses else MUTATIONS).choose(name)
    assert isinstance(settings, OperatorSettings)
    return breed(
        list(parents) if crosses else [parents[0]],
        PlannedOperator(settings, crosses),
        seed_for(0, "retention", name, seed),
    )


def _same_for_all(source: Source) -> Source:
    """Everybody attempts the same problems: levels are compared item by item."""
    return lambda seed, step, student, count: source(seed, step, "everybody", count)


def _level(state: StepState, member: Member) -> float:
    verdicts = [
        attempt.verdict == "correct"
        for result in state.results
        if result.match.pairing.student.slot == member.slot
        for attempt in result.attempts
    ]
    return sum(verdicts) / max(1, len(verdicts))


def _retained(name: str, slots: Sequence[int], levels: Sequence[Sequence[float]]) -> Retained:
    # the better one over all updates: whoever is ahead in one of them is partly lucky, and a copy
    # would seem to fall short
    better = max((0, 1), key=lambda parent: sum(row[parent] for row in levels))
    gaps = [[row[slot] - row[better] for row in levels] for slot in slots]
    first = sum(gap[0] for gap in gaps) / len(gaps)
    last = sum(sum(gap[-_LAST:]) / len(gap[-_LAST:]) for gap in gaps) / len(gaps)
    return Retained(name, first, last, [_back(gap) for gap in gaps])


def _back(gaps: Sequence[float]) -> int | None:
    """The first update after which the mean of the last few gaps is not below zero."""
    for count in range(_LAST, len(gaps) + 1):
        if sum(gaps[count - _LAST : count]) >= 0:
            return count
    return None
