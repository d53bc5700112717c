"""The hall of fame: members as they once were, whom matching may bring back, so that nobody forgets
how to play against them.

They keep a place in the engine and their rating, write and attempt as they did then, and learn
nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from redqueen.core.world import Veteran, World
from redqueen.records import Member, Pairing, Role
from redqueen.stages.evolve.select import Snapshot, hall_of_fame
from redqueen.stages.rate.ratings import chance

if TYPE_CHECKING:
    from redqueen.engine.protocol import Engine

_ROLES: tuple[Role, ...] = ("teacher", "student")


def with_veterans(pairings: Sequence[Pairing], world: World, draw: Random) -> list[Pairing]:
    """The pairings, with one side of some of them taken by a past member of that role."""
    share = world.config.evolve.hall_of_fame.share
    found = []
    for pairing in pairings:
        role = draw.choice(_ROLES)
        past = [veteran.member for veteran in world.hall if veteran.member.role == role]
        if past and draw.random() < share:
            one = draw.choice(past)
            teacher, student = (
                (one, pairing.student) if role == "teacher" else (pairing.teacher, one)
            )
            pairing = Pairing(
                teacher, student, chance(student.rating, teacher.rating, world.config.match.rating)
            )
        found.append(pairing)
    return found


def admit(world: World, step: int, engine: "Engine") -> None:
    """After so many steps the fittest of each role is kept as it is. The hall stays spread over the
    run: one of its past gives way."""
    config = world.config.evolve.hall_of_fame
    if not config.size or step % config.every:
        return
    for role in _ROLES:
        there = [veteran for veteran in world.hall if veteran.member.role == role]
        best = max(
            (member for member in world.members if member.role == role),
            key=lambda member: member.rating.bound,
        )
        places = range(config.size * _ROLES.index(role), config.size * (_ROLES.index(role) + 1))
        slots = [len(world.members) + place for place in places]
        new = Veteran(_renamed(best, step, slot=-1), step)
        kept = hall_of_fame([_snapshot(veteran) for veteran in (*there, new)], config.size)
        stay = [veteran for veteran in there if _snapshot(veteran) in kept]
        if _snapshot(new) in kept:
            free = next(
                slot for slot in slots if slot not in {veteran.member.slot for veteran in stay}
            )
            engine.write(
                world.first_slot + free, engine.read(world.slot(best)), reset_optimizer=True
            )
            stay.append(Veteran(_renamed(best, step, slot=free), step))
        world.hall = [veteran for veteran in world.hall if veteran.member.role != role] + stay


def _renamed(member: Member, step: int, slot: int) -> Member:
    """Such as T2@30: T2 as it was after step 30."""
    return replace(member, id=f"{member.id}@{step}", slot=slot)


def _snapshot(veteran: Veteran) -> Snapshot:
    return Snapshot(
        veteran.member.id, veteran.member.version, veteran.step, veteran.member.rating.bound
    )
