"""Schemes: which student attempts which teacher's problems. Every member plays; where one role has
fewer, its members play again."""

from collections.abc import Callable, Sequence
from random import Random

from redqueen.config.stages import MatchConfig, RatingConfig
from redqueen.records import Member, Pairing
from redqueen.stages.rate.ratings import chance

Scheme = Callable[
    [Sequence[Member], Sequence[Member], int, Random, RatingConfig], list[tuple[Member, Member]]
]
"""From teachers, students, the step, a random stream and the constants of rating: (teacher,
student) pairs."""


def match(members: Sequence[Member], step: int, draw: Random, config: MatchConfig) -> list[Pairing]:
    teachers = [member for member in members if member.role != "student"]
    students = [member for member in members if member.role != "teacher"]
    pairs = SCHEMES[config.scheme](teachers, students, step, draw, config.rating)
    return [
        Pairing(teacher, student, chance(student.rating, teacher.rating, config.rating))
        for teacher, student in pairs
    ]


def pfsp(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    draw: Random,
    config: RatingConfig,
) -> list[tuple[Member, Member]]:
    """Prioritised fictitious self-play: pairs are drawn by p(1 - p), largest where either may win."""
    return _one_to_one(
        teachers,
        students,
        draw,
        lambda teacher, student: _balance(chance(student.rating, teacher.rating, config)),
    )


def uniform(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    draw: Random,
    config: RatingConfig,
) -> list[tuple[Member, Member]]:
    """Any pair is as likely as any other."""
    return _one_to_one(teachers, students, draw, lambda teacher, student: 1.0)


def round_robin(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    draw: Random,
    config: RatingConfig,
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
    draw: Random,
    config: RatingConfig,
) -> list[tuple[Member, Member]]:
    """Every member attempts its own problems."""
    return [(member, member) for member in teachers]


SCHEMES: dict[str, Scheme] = {
    "pfsp": pfsp,
    "uniform": uniform,
    "round_robin": round_robin,
    "self_play": self_play,
}


def _balance(expected: float) -> float:
    return max(
        expected * (1 - expected), 1e-9
    )  # a hopeless pairing stays possible: somebody has to play it


def _one_to_one(
    teachers: Sequence[Member],
    students: Sequence[Member],
    draw: Random,
    weight: Callable[[Member, Member], float],
) -> list[tuple[Member, Member]]:
    """Pairs drawn by weight without replacement, until all have played."""
    found: list[tuple[Member, Member]] = []
    free_teachers, free_students = list(teachers), list(students)
    for _ in range(max(len(teachers), len(students))):
        free_teachers, free_students = (
            free_teachers or list(teachers),
            free_students or list(students),
        )
        pairs = [(teacher, student) for teacher in free_teachers for student in free_students]
        teacher, student = draw.choices(pairs, [weight(*pair) for pair in pairs])[0]
        free_teachers.remove(teacher)
        free_students.remove(student)
        found.append((teacher, student))
    return found
