"""The retention test: does a child recover its parent's level, and sooner than a trivial child of
the same cost?

The two parents and children of every operator and seed are the students of one world. In every
update all attempt the same fixed problems; the children learn from them, the parents do not. A
child has recovered when, over the last few updates, it solves as many as its better parent. The
controls are `copy_parent` (nothing changes) and `linear` (the plain mean).
"""

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redqueen.config.schema import Config
from redqueen.core.build import open_engine, open_ports, read_arms, read_fingerprint
from redqueen.core.state import StepState
from redqueen.core.step import play_step
from redqueen.core.world import new_world
from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.saved_adapters import load_adapters
from redqueen.ledger.members import newest_checkpoint, saved_members
from redqueen.records import Member
from redqueen.rng import seed_for
from redqueen.stages.evolve.cross import CROSSOVERS
from redqueen.stages.evolve.mutate import MUTATIONS
from redqueen.stages.evolve.plan import PlannedOperator
from redqueen.tasks.sources import Source, load_source

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

CONTROLS = ("copy_parent", "linear")

_WINDOW = 3
"""Updates that a level is averaged over."""
_PARENTS = 2


@dataclass(frozen=True, slots=True)
class Retention:
    """The children of one operator. A level is the share of problems solved."""

    operator: str
    at_birth: float
    """Their mean level in the first update, less the better parent's on the same problems."""
    at_end: float
    """The same, over the last updates."""
    updates: list[int | None]
    """Until each child recovered; None where it did not."""

    @property
    def passes(self) -> bool:
        return all(count is not None for count in self.updates)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passes": self.passes}


def retention(
    folder: Path,
    operators: Sequence[str] = (),
    *,
    seeds: int = 3,
    updates: int = 20,
    problems: int = 16,
    base: str | None = None,
    on_update: Callable[[int, int], None] = lambda done, total: None,
) -> list[Retention]:
    """Test operators, by name or import path, on the two best students of a run; all that are
    known where none is named. The controls are always tested."""
    from redqueen.stages.evolve.breed import breed

    names = [*CONTROLS, *(name for name in operators or _known() if name not in CONTROLS)]
    planned = {name: plan_operator(name) for name in names}
    config, parents = _read_parents(folder, base)
    children = [(name, seed) for name in names for seed in range(seeds)]
    config = config.with_settings(
        population={"teachers": 0, "students": _PARENTS + len(children), "learning_rates": ()},
        fixed={"problems": problems},
        evolve={"every": 0, "hall_of_fame": {"size": 0}},
        match={"scheme": "pfsp"},
    )
    adapters = parents + [
        breed(
            parents if planned[name].crosses else parents[:1],
            planned[name],
            seed_for(0, "retention", name, seed),
        )
        for name, seed in children
    ]
    levels = _play(folder, config, adapters, updates, base, on_update)
    return [
        _summarize(
            name,
            [_PARENTS + place for place, child in enumerate(children) if child[0] == name],
            levels,
        )
        for name in names
    ]


def plan_operator(name: str) -> PlannedOperator:
    """An operator with its default settings. One of your own is a crossover if it takes two
    parents, that is, four arguments."""
    if ":" not in name and name not in _known():
        raise ConfigError(unknown("operator", name, _known()))
    crosses = name in CROSSOVERS
    if ":" in name:
        crosses = len(inspect.signature(CROSSOVERS[name]).parameters) == _PARENTS + 2
    settings = (CROSSOVERS if crosses else MUTATIONS).choose(name)
    return PlannedOperator(settings, crosses)


def _known() -> list[str]:
    return [*MUTATIONS, *CROSSOVERS]


def _read_parents(folder: Path, base: str | None) -> tuple[Config, "list[Adapter]"]:
    """The run's settings, and the weights of its two best students, the better one first."""
    checkpoint = newest_checkpoint(folder)
    students = [member for member in saved_members(checkpoint, 0) if member.role != "teacher"]
    best = sorted(students, key=lambda member: -member.rating.bound)[:_PARENTS]
    if len(best) < _PARENTS:
        raise ConfigError(f"{folder} has one student, and a crossover needs two")
    return read_arms(folder)[0][1], load_adapters(folder, checkpoint, best, base)


def _play(
    folder: Path,
    config: Config,
    adapters: "Sequence[Adapter]",
    updates: int,
    base: str | None,
    on_update: Callable[[int, int], None],
) -> list[list[float]]:
    """The level of every student in every update."""
    with ExitStack() as stack:
        engine = open_engine(stack, [config], read_fingerprint(folder), base)
        ports = open_ports(stack, config, engine)
        source = _same_for_all(load_source(config.fixed, config.tasks.kinds))
        world = new_world(0, "retention", config, 0, (), source)
        for slot, adapter in enumerate(adapters):
            engine.write(slot, adapter, reset_optimizer=True)
        world.members = [
            replace(member, learning_rate=0.0 if member.slot < _PARENTS else None)
            for member in world.members
        ]
        levels: list[list[float]] = []
        for step in range(1, updates + 1):
            state = StepState(world, step)
            play_step([state], ports)
            levels.append([_level(state, member) for member in world.members])
            on_update(step, updates)
    return levels


def _same_for_all(source: Source) -> Source:
    """All students attempt the same problems, so levels are compared item by item."""
    return lambda seed, step, student, count: source(seed, step, "everybody", count)


def _level(state: StepState, member: Member) -> float:
    verdicts = [
        attempt.verdict == "correct"
        for result in state.results
        if result.match.pairing.student.slot == member.slot
        for attempt in result.attempts
    ]
    return sum(verdicts) / max(1, len(verdicts))


def _summarize(name: str, slots: Sequence[int], levels: Sequence[Sequence[float]]) -> Retention:
    # the better parent over all updates: in a single one, whoever is ahead is partly lucky, and a
    # copy would seem to fall short
    better = max(range(_PARENTS), key=lambda parent: sum(row[parent] for row in levels))
    gaps = [[row[slot] - row[better] for row in levels] for slot in slots]
    first = sum(gap[0] for gap in gaps) / len(gaps)
    last = sum(sum(gap[-_WINDOW:]) / len(gap[-_WINDOW:]) for gap in gaps) / len(gaps)
    return Retention(name, first, last, [_recovery(gap) for gap in gaps])


def _recovery(gaps: Sequence[float]) -> int | None:
    """The first update after which the mean of the last few gaps is not below zero."""
    for count in range(_WINDOW, len(gaps) + 1):
        if sum(gaps[count - _WINDOW : count]) >= 0:
            return count
    return None
