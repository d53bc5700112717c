"""The retention test: do children of an operator reach the level that plain copies of their parent
reach, with as many updates on the same problems?

Children of every operator and seed are the students of one world; in every update all attempt and
learn from the same fixed problems. An operator's children are compared with those of `copy_parent`,
which changes nothing: a parent that stands still would be no measure for children that learn. What
the comparison can detect is stated beside it.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from redqueen.config.schema import Config
from redqueen.core.build import open_engine, open_ports, read_arms, read_fingerprint
from redqueen.core.state import StepState
from redqueen.core.step import play_step
from redqueen.core.world import new_world
from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.saved_adapters import load_adapters
from redqueen.evaluate.statistics import mean, welch_detectable, welch_difference
from redqueen.evaluate.untrusted import untrusted_overrides
from redqueen.ledger.members import newest_checkpoint, saved_members
from redqueen.ledger.run_reader import open_run
from redqueen.records import Member
from redqueen.rng import seed_for
from redqueen.stages.evolve.cross import CROSSOVERS
from redqueen.stages.evolve.mutate import MUTATIONS
from redqueen.stages.evolve.plan import PlannedOperator
from redqueen.tasks.sources import Source, load_source

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

CONTROL = "copy_parent"

MARGIN = 0.02
"""Children that are surely not this far behind copies have recovered."""
_PARENTS = 2

Verdict = Literal["control", "recovers", "worse", "undecided"]


@dataclass(frozen=True, slots=True)
class Retention:
    """The children of one operator. A level is the share of problems solved; differences are to
    the children of `copy_parent`."""

    operator: str
    at_birth: float
    """In the first update."""
    at_end: float
    """Over the last third of the updates."""
    interval: tuple[float, float] | None
    """Of that, over children: Welch's t. None for a single child."""
    detectable: float | None
    """The difference that would be found in 80 % of the cases."""

    @property
    def verdict(self) -> Verdict:
        if self.operator == CONTROL:
            return "control"
        if self.interval is None or self.interval[0] <= -MARGIN <= self.interval[1]:
            return "undecided"
        return "recovers" if self.interval[0] > -MARGIN else "worse"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def retention(
    folder: Path,
    operators: Sequence[str] = (),
    *,
    seeds: int = 3,
    updates: int = 20,
    problems: int = 16,
    base: str | None = None,
    unsafe: bool = False,
    on_update: Callable[[int, int], None] = lambda done, total: None,
) -> list[Retention]:
    """Test operators, by name or import path, on the two best students of a run; all that are
    known where none is named. The control is always tested. Walls of the sandbox are missing only
    where `unsafe` allows it, whatever the run says."""
    from redqueen.stages.evolve.breed import breed

    names = [CONTROL, *(name for name in operators or _known() if name != CONTROL)]
    planned = {name: plan_operator(name) for name in names}
    config, parents = _read_parents(folder, base)
    children = [(name, seed) for name in names for seed in range(seeds)]
    config = config.with_settings(
        population={"teachers": 0, "students": len(children), "learning_rates": ()},
        fixed={"problems": problems},
        evolve={"every": 0, "hall_of_fame": {"size": 0}},
        match={"scheme": "pfsp"},
        **untrusted_overrides(unsafe),
    )
    adapters = [
        breed(
            parents if planned[name].crosses else parents[:1],
            planned[name],
            seed_for(0, "retention", name, seed),
        )
        for name, seed in children
    ]
    levels = _play(folder, config, adapters, updates, base, on_update)
    by_operator = {
        name: [
            [row[place] for row in levels]
            for place, child in enumerate(children)
            if child[0] == name
        ]
        for name in names
    }
    return [summarize(name, by_operator[name], by_operator[CONTROL]) for name in names]


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
    with open_run(folder) as run:
        fitness = {row["member"]: row["fitness"] for row in run.fitness(0)}  # the last ranking's
    best = sorted(
        students,
        key=lambda member: (fitness.get(member.id, -math.inf), member.rating.bound),
        reverse=True,
    )[:_PARENTS]
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
        if attempt.verdict != "voided"
    ]
    return sum(verdicts) / max(1, len(verdicts))


def summarize(
    name: str, children: Sequence[Sequence[float]], copies: Sequence[Sequence[float]]
) -> Retention:
    """From the levels of an operator's children, and of copies, in every update."""
    window = max(1, len(children[0]) // 3)
    ends, others = ([mean(one[-window:]) for one in group] for group in (children, copies))
    interval, _ = welch_difference(ends, others) or (None, None)
    return Retention(
        name,
        mean([one[0] for one in children]) - mean([one[0] for one in copies]),
        mean(ends) - mean(others),
        interval,
        welch_detectable(ends, others),
    )
