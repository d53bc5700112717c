"""The evolve stage: the weakest members of each role are replaced by mutations and crossovers of
the strongest, in weight space.

`select` says who dies and who breeds, `plan` what each child is made of, `breed` makes it;
`mutate/` and `cross/` hold the operators. Settings and plans need no torch; only making a child
does.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from redqueen.core.pipeline import Ports
from redqueen.core.state import StepState
from redqueen.core.world import World, member_id
from redqueen.engine.protocol import Engine
from redqueen.records import Birth, Death, Member, Rating
from redqueen.rng import stream
from redqueen.stages.evolve.hall_of_fame import admit
from redqueen.stages.evolve.plan import Replacement, choose_from_mix, plan_replacements
from redqueen.stages.evolve.select import FITNESS, Standing

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

_MAX_MUTATIONS = 5
"""Times that a child is mutated further because it is too near to another member, at most."""


def evolve(states: Sequence[StepState], ports: Ports) -> None:
    for state in states:
        config = state.world.config
        # the weights of a diverged world are no parents; where nobody is rated, nobody is weakest
        if not state.diverged and config.is_rated and config.evolve.due(state.step):
            _replace_weakest(state, ports.engine)
        admit(state.world, state.step, ports.engine)


def _replace_weakest(state: StepState, engine: Engine) -> None:
    """All children are made before one of them takes a place."""
    from redqueen.stages.evolve.breed import breed

    world, config = state.world, state.world.config.evolve
    replacements = plan_replacements(
        [_standing(member, world) for member in world.members],
        config,
        stream(world.seed, state.step, "evolve"),
    )
    parents = sorted({parent for planned in replacements for parent in planned.parents})
    adapters = {parent: engine.read(world.slot(world.by_id(parent))) for parent in parents}
    children = [
        breed([adapters[parent] for parent in planned.parents], planned.operator, planned.seed)
        for planned in replacements
    ]
    for planned, adapter in zip(replacements, children, strict=True):
        dead = world.by_id(planned.dead)
        child = _child(planned, dead, state)
        engine.write(world.slot(dead), adapter, reset_optimizer=config.child.reset_optimizer)
        settings = planned.settings()
        if further := _mutate_apart(child, adapter, state, engine):
            settings["further"] = further
        operator = planned.operator.settings.type
        state.births.append(Birth(child, planned.parents, operator, settings))
        state.deaths.append(Death(dead, planned.reason))
        world.members = [child if member.id == dead.id else member for member in world.members]
    state.metrics["evolve/replaced"] = len(replacements)


def _standing(member: Member, world: World) -> Standing:
    choice = world.config.evolve.fitness
    return Standing(
        member.id,
        member.role,
        member.rating.mu,
        member.rating.sigma,
        FITNESS[choice.type](member, choice.options),
        world.learning_rate(member),
        world.temperature(member, member.role),
    )


def _child(planned: Replacement, dead: Member, state: StepState) -> Member:
    """The member that takes the place of the dead one."""
    perturb = state.world.config.evolve.perturb
    number = int(dead.id[1:].partition(".")[0])
    rate, temperature = dead.learning_rate, dead.temperature
    return replace(
        dead,
        id=member_id(dead.role, number, state.step),
        version=0,
        rating=Rating(planned.mu, planned.sigma),
        born=state.step,
        learning_rate=planned.learning_rate if perturb.learning_rate_factor != 1 else rate,
        temperature=planned.temperature if perturb.temperature_factor != 1 else temperature,
    )


def _mutate_apart(child: Member, adapter: "Adapter", state: StepState, engine: Engine) -> int:
    """Mutate a child further that is too near to another member of its role, a few times at most;
    how often is returned."""
    from redqueen.stages.evolve.breed import breed

    world, config = state.world, state.world.config.evolve
    others = [
        member.slot
        for member in world.members
        if member.role == child.role and member.slot != child.slot
    ]
    if not config.least_distance or not others or not config.mutations:
        return 0
    rng = stream(world.seed, state.step, "apart", child.id)
    for times in range(_MAX_MUTATIONS):
        distances = engine.distances(world.first_slot, len(world.members))[child.slot]
        if min(distances[slot] for slot in others) >= config.least_distance:
            return times
        operator = choose_from_mix(config.mutations, crosses=False, rng=rng)
        adapter = breed([adapter], operator, rng.getrandbits(63))
        engine.write(world.slot(child), adapter, reset_optimizer=config.child.reset_optimizer)
    return _MAX_MUTATIONS
