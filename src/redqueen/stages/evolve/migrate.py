"""Migration: worlds of a study exchange members. Every so many steps a copy of each world's fittest
student takes the place of the least fit student of the next world, in a ring.

A world that takes part no longer has the records that it would have alone.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from redqueen.core.state import StepState
from redqueen.core.world import World, member_id
from redqueen.engine.protocol import Engine
from redqueen.records import Birth, Death, Member, Rating

OPERATOR = "migration"


def migrate(states: Sequence[StepState], engine: Engine) -> None:
    """Among the worlds that still play, where it is time. All are read before one is written."""
    states = [state for state in states if state.world.config.evolve.migration_due(state.step)]
    if len(states) < 2:
        return
    travellers = [_fittest(state.world) for state in states]
    adapters = [
        engine.read(state.world.slot(member))
        for state, member in zip(states, travellers, strict=True)
    ]
    for place, member in enumerate(travellers):
        source, target = states[place], states[(place + 1) % len(states)]
        dead = _least_fit(target)
        if dead is None:
            continue
        world = target.world
        child = _settle(dead, world, target.step)
        engine.write(world.slot(dead), adapters[place], reset_optimizer=True)
        origin = f"{source.world.number}/{member.id}"
        settings = {"world": source.world.number, "version": member.version}
        target.births.append(Birth(child, (origin,), OPERATOR, settings))
        target.deaths.append(Death(dead, f"{OPERATOR}: {origin} comes in its place"))
        world.members = [child if one.id == dead.id else one for one in world.members]
        target.metrics["evolve/migrated"] = 1


def _fittest(world: World) -> Member:
    """As fitness was last judged; before that by rating."""
    chosen = [member for member in world.students if member.id == world.chosen]
    return chosen[0] if chosen else max(world.students, key=lambda member: member.rating.bound)


def _least_fit(state: StepState) -> Member | None:
    """Not the fittest, and nobody that was born in this step: a place is taken once a step."""
    world = state.world
    fitness = {row["member"]: row["fitness"] for row in state.fitness}
    stays = _fittest(world).id
    others = [m for m in world.students if m.id != stays and m.born != state.step]
    if not others:
        return None
    known = all(member.id in fitness for member in others)
    return min(others, key=lambda one: fitness[one.id] if known else one.rating.bound)


def _settle(dead: Member, world: World, step: int) -> Member:
    """With the mean rating of the students that it comes to: its own was among others."""
    ratings = [member.rating for member in world.students]
    return replace(
        dead,
        id=member_id(dead.role, int(dead.id[1:].partition(".")[0]), step),
        version=0,
        born=step,
        rating=Rating(
            statistics.fmean(rating.mu for rating in ratings),
            statistics.fmean(rating.sigma for rating in ratings),
        ),
    )
