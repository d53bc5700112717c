"""The match stage: which student attempts which teacher's problems."""

from collections.abc import Sequence
from random import Random

from redqueen.core.state import PairingState, StepState
from redqueen.core.trueskill import win_probability
from redqueen.core.world import World
from redqueen.records import Member, Pairing, Role
from redqueen.rng import stream
from redqueen.stages.match.schemes import SCHEMES

FIXED = Member("fixed", "teacher", -1)
"""Stands in for a teacher where the problems are fixed ones."""
_ROLES: tuple[Role, ...] = ("teacher", "student")


def match(states: Sequence[StepState]) -> None:
    for state in states:
        pairings = _pair_world(state.world, state.step)
        state.pairings = [PairingState(*numbered) for numbered in enumerate(pairings)]
        if state.world.config.is_evolving:
            state.pairings += _add_students(state)


def _pair_world(world: World, step: int) -> list[Pairing]:
    config = world.config
    if config.is_fixed:
        return [Pairing(FIXED, student, 0.5) for student in world.members]
    teachers = [member for member in world.members if member.role != "student"]
    students = [member for member in world.members if member.role != "teacher"]
    choice, rng = config.match.scheme, stream(world.seed, step, "match")
    pairs = SCHEMES[choice.type](teachers, students, step, rng, config.rate, choice.options)
    pairings = [_pair(teacher, student, world) for teacher, student in pairs]
    if world.hall_of_fame:
        return _bring_back(pairings, world, stream(world.seed, step, "hall"))
    return pairings


def _add_students(state: StepState) -> list[PairingState]:
    """Further students for each teacher's problems; everybody meets as many as the others."""
    world, rng = state.world, stream(state.world.seed, state.step, "more students")
    met = dict.fromkeys((student.id for student in world.students), 0)
    added: list[PairingState] = []
    for lead in state.pairings:
        taken = {lead.pairing.student.id, lead.pairing.teacher.id}
        for _ in range(world.config.match.students_per_problem - 1):
            others = [student for student in world.students if student.id not in taken]
            student = min(rng.sample(others, len(others)), key=lambda student: met[student.id])
            met[student.id] += 1
            taken.add(student.id)
            number = len(state.pairings) + len(added)
            pairing = _pair(lead.pairing.teacher, student, world)
            added.append(PairingState(number, pairing, lead))
    return added


def _pair(teacher: Member, student: Member, world: World) -> Pairing:
    expected = win_probability(student.rating, teacher.rating, world.config.rate)
    return Pairing(teacher, student, expected)


def _bring_back(pairings: Sequence[Pairing], world: World, rng: Random) -> list[Pairing]:
    """One side of some pairings is taken by a past member of that role, so that nobody forgets how
    to play against them."""
    share = world.config.evolve.hall_of_fame.share
    mixed = []
    for pairing in pairings:
        role = rng.choice(_ROLES)
        past = [past.member for past in world.hall_of_fame if past.member.role == role]
        if past and rng.random() < share:
            veteran = rng.choice(past)
            teacher = veteran if role == "teacher" else pairing.teacher
            student = veteran if role == "student" else pairing.student
            mixed.append(_pair(teacher, student, world))
        else:
            mixed.append(pairing)
    return mixed
