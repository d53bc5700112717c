"""The evolve stage: who goes, whose child takes the place, and what it starts with. The plan and
the operators are `evolve/`'s."""

from dataclasses import replace
from typing import TYPE_CHECKING

from redqueen.core.state import StepState, birth_row
from redqueen.core.world import member_id
from redqueen.engine.protocol import Engine
from redqueen.records import Member, Rating
from redqueen.rng import stream
from redqueen.stages.evolve.plan import apply, breed, plan
from redqueen.stages.evolve.select import Standing

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

_MOST_FURTHER = 5
"""Times that a child is mutated further, at most."""


def evolve(turn: StepState, engine: Engine) -> None:
    """The weakest of each role are replaced by children of the fittest. All children are made
    before one of them takes a place. Where nobody is rated nobody is weakest, and all stay."""
    world, config = turn.world, turn.world.config
    if (
        turn.broken or not config.is_rated or not config.evolve.due(turn.step)
    ):  # a broken world ends: its weights are no parents
        return
    standings = [
        Standing(
            member.id,
            member.role,
            member.rating.mu,
            member.rating.sigma,
            world.learning_rate(member),
            world.temperature(member, member.role),
        )
        for member in world.members
    ]
    planned = plan(standings, config.evolve, stream(world.seed, turn.step, "evolve"))
    wanted = {parent for replacement in planned for parent in replacement.parents}
    adapters = {member: engine.read(world.slot(world.by_id(member))) for member in sorted(wanted)}
    children = [apply(adapters, replacement) for replacement in planned]
    perturb = config.evolve.perturb
    for replacement, weights in zip(planned, children, strict=True):
        old = world.by_id(replacement.dead)
        child = replace(
            old,
            id=member_id(old.role, int(old.id[1:].partition(".")[0]), turn.step),
            version=0,
            rating=Rating(replacement.mu, replacement.sigma),
            born=turn.step,
            learning_rate=replacement.learning_rate
            if perturb.learning_rate_factor != 1
            else old.learning_rate,
            temperature=replacement.temperature
            if perturb.temperature_factor != 1
            else old.temperature,
        )
        engine.write(world.slot(old), weights, reset_optimizer=config.evolve.child.reset_optimizer)
        birth, further = (
            replacement.birth(child.id, turn.step),
            _apart(child, weights, turn, engine),
        )
        turn.births.append(
            birth_row(
                child,
                birth.parents,
                birth.operator,
                {**birth.settings, **({"further": further} if further else {})},
            )
        )
        turn.deaths.append(
            {
                "member": old.id,
                "reason": replacement.reason,
                "mu": old.rating.mu,
                "sigma": old.rating.sigma,
            }
        )
        world.members = [child if member.id == old.id else member for member in world.members]
    turn.metrics["evolve/replaced"] = len(planned)


def _apart(child: Member, weights: "Adapter", turn: StepState, engine: Engine) -> int:
    """A child too near to another member of its role is mutated further, a few times at most: how
    often is returned."""
    world, config = turn.world, turn.world.config.evolve
    others = [
        member.slot
        for member in world.members
        if member.role == child.role and member.slot != child.slot
    ]
    if not config.least_distance or not others or not config.mutations:
        return 0
    draw = stream(world.seed, turn.step, "apart", child.id)
    for times in range(_MOST_FURTHER):
        apart = engine.distances(world.first_slot, len(world.members))[child.slot]
        if min(apart[slot] for slot in others) >= config.least_distance:
            return times
        settings = draw.choices(config.mutations, [one.weight for one in config.mutations])[0]
        weights = breed([weights], settings, draw.getrandbits(63))
        engine.write(world.slot(child), weights, reset_optimizer=config.child.reset_optimizer)
    return _MOST_FURTHER
