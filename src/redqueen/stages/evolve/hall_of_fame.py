"""The hall of fame: members as they once were, whom matching may bring back.

They keep an adapter slot and their rating, propose and solve as they did then, and are not trained.
"""

from collections.abc import Mapping
from dataclasses import replace

from redqueen.core.world import PastMember, World
from redqueen.engine.protocol import Engine
from redqueen.records import Member, Role
from redqueen.stages.evolve.select import spread_over_run

_ROLES: tuple[Role, ...] = ("teacher", "student")


def admit(world: World, step: int, fitness: Mapping[str, float], engine: Engine) -> None:
    """The fittest of each role is kept as it is. The hall stays spread over the run: one of its
    past gives way."""
    config = world.config.evolve.hall_of_fame
    for number, role in enumerate(_ROLES):
        past = [past for past in world.hall_of_fame if past.member.role == role]
        members = [m for m in world.members if m.role == role and m.id in fitness]
        best = max(members, key=lambda member: fitness[member.id])
        first = len(world.members) + number * config.size
        new = PastMember(_rename(best, step), step, fitness[best.id])
        kept = spread_over_run([*past, new], config.size)
        stay = [veteran for veteran in past if veteran in kept]
        if new in kept:
            taken = {veteran.member.slot for veteran in stay}
            slot = next(slot for slot in range(first, first + config.size) if slot not in taken)
            engine.write(
                world.first_slot + slot, engine.read(world.slot(best)), reset_optimizer=True
            )
            stay.append(replace(new, member=replace(new.member, slot=slot)))
        world.hall_of_fame = [
            *(past for past in world.hall_of_fame if past.member.role != role),
            *stay,
        ]


def _rename(member: Member, step: int) -> Member:
    """Such as T2@30: T2 as it was after step 30."""
    return replace(member, id=f"{member.id}@{step}", slot=-1)
