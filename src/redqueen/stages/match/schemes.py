"""Schemes: which student attempts which teacher's problems. Every member plays; where one role has
fewer members, they play again."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from redqueen.config.registry import Choice, Registry
from redqueen.config.stages import RateConfig
from redqueen.core.trueskill import win_probability
from redqueen.records import Member

Scheme = Callable[
    [Sequence[Member], Sequence[Member], int, Random, RateConfig, Any],
    list[tuple[Member, Member]],
]
"""From teachers, students, the step, random numbers, the constants of rating and the settings:
(teacher, student) pairs. With an attribute `both_roles = True` every member is teacher and student,
and nobody is rated."""


def pfsp(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    rng: Random,
    config: RateConfig,
    settings: Choice,
) -> list[tuple[Member, Member]]:
    """Prioritised fictitious self-play: pairs are sampled by p(1 - p), largest where
    either may win."""
    return _one_to_one(
        teachers,
        students,
        rng,
        lambda teacher, student: _balance(win_probability(student.rating, teacher.rating, config)),
    )


def uniform(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    rng: Random,
    config: RateConfig,
    settings: Choice,
) -> list[tuple[Member, Member]]:
    """Any pair is as likely as any other."""
    return _one_to_one(teachers, students, rng, lambda teacher, student: 1.0)


def round_robin(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    rng: Random,
    config: RateConfig,
    settings: Choice,
) -> list[tuple[Member, Member]]:
    """Everybody meets everybody in turn, and as often: whoever has to play twice in a step is
    another one each time."""
    if len(teachers) < len(students):
        return [
            (teachers[(game + step) % len(teachers)], student)
            for game, student in enumerate(students)
        ]
    return [
        (teacher, students[(game + step) % len(students)]) for game, teacher in enumerate(teachers)
    ]


def self_play(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    rng: Random,
    config: RateConfig,
    settings: Choice,
) -> list[tuple[Member, Member]]:
    """Every member attempts its own problems."""
    return [(member, member) for member in teachers]


def cross_play(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    rng: Random,
    config: RateConfig,
    settings: Choice,
) -> list[tuple[Member, Member]]:
    """Every member attempts another's problems, never its own: a ring in random order."""
    ring = rng.sample(teachers, len(teachers))
    return list(zip(ring, [*ring[1:], ring[0]], strict=True))


self_play.both_roles = True  # type: ignore[attr-defined]
cross_play.both_roles = True  # type: ignore[attr-defined]

SCHEMES: Registry[Scheme] = Registry(
    "match scheme",
    {
        "pfsp": pfsp,
        "uniform": uniform,
        "round_robin": round_robin,
        "self_play": self_play,
        "cross_play": cross_play,
    },
)


def _balance(expected: float) -> float:
    return max(
        expected * (1 - expected), 1e-9
    )  # a hopeless pairing stays possible: somebody has to play it


def _one_to_one(
    teachers: Sequence[Member],
    students: Sequence[Member],
    rng: Random,
    weight: Callable[[Member, Member], float],
) -> list[tuple[Member, Member]]:
    """Pairs drawn by weight without replacement, until all have played."""
    chosen: list[tuple[Member, Member]] = []
    free_teachers, free_students = list(teachers), list(students)
    for _ in range(max(len(teachers), len(students))):
        free_teachers, free_students = (
            free_teachers or list(teachers),
            free_students or list(students),
        )
        pairs = [(teacher, student) for teacher in free_teachers for student in free_students]
        teacher, student = rng.choices(pairs, [weight(*pair) for pair in pairs])[0]
        free_teachers.remove(teacher)
        free_students.remove(student)
        chosen.append((teacher, student))
    return chosen
