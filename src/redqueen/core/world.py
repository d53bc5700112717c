"""A world: one ecology of members with its archive and its memory of what was there before. All
that a step changes is here."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from redqueen.config.schema import Config
from redqueen.core.archive import Archive
from redqueen.records import Author, Member, Problem, Rating, Role
from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.tasks.code.sources import Source

_LETTERS: dict[Role, str] = {"teacher": "T", "student": "S", "both": "B"}


@dataclass(frozen=True, slots=True)
class Veteran:
    """A member as it was after a step, in a slot of its own: it plays, but it learns no more."""

    member: Member
    step: int


@dataclass(slots=True)
class World:
    number: int
    arm: str
    """The rules it plays by, by name."""
    config: Config
    first_slot: int
    """Its members' slots in the engine begin here."""
    members: list[Member]
    archive: Archive
    source: Source | None = None
    """Of fixed problems, where nobody invents any."""
    known: set[str] = field(default_factory=set)
    """Keys of all problems there ever were, those that have left the archive too."""
    cells: set[str] = field(default_factory=set)
    """Structural cells visited."""
    behaviours: set[str] = field(default_factory=set)
    steps_without_problem: int = 0
    """Steps in a row without a valid problem."""
    steps_without_update: int = 0
    """Steps in a row in which nobody had anything to learn."""
    ended: str = ""
    """Why it plays no further, where it does not: it has nothing left to learn from."""
    hall: list[Veteran] = field(default_factory=list)
    """Past members that may be met again."""

    @property
    def seed(self) -> int:
        return self.config.seed

    def slot(self, member: Member) -> int:
        return self.first_slot + member.slot

    def learning_rate(self, member: Member) -> float:
        """Its own, or that of its role."""
        config = self.config.update
        if member.learning_rate is not None:
            return member.learning_rate
        return (member.role == "teacher" and config.teacher_learning_rate) or config.learning_rate

    def temperature(self, member: Member, role: str) -> float:
        """At which the member writes in a role."""
        return (
            member.temperature
            or (self.config.propose if role == "teacher" else self.config.solve).temperature
        )

    def by_id(self, member: str) -> Member:
        return next(
            one
            for one in (*self.members, *(veteran.member for veteran in self.hall))
            if one.id == member
        )

    def change(self, member: str, **changes: Any) -> None:
        self.members = [
            replace(one, **changes) if one.id == member else one for one in self.members
        ]

    def snapshot(self) -> dict[str, Any]:
        """All of it, as JSON can hold it. Random streams are not there: they follow from the seed
        and the step."""
        return {
            "members": [asdict(member) for member in self.members],
            "archive": [_fields(problem) for problem in self.archive],
            "known": sorted(self.known),
            "cells": sorted(self.cells),
            "behaviours": sorted(self.behaviours),
            "steps_without_problem": self.steps_without_problem,
            "steps_without_update": self.steps_without_update,
            "ended": self.ended,
            "hall": [asdict(veteran) for veteran in self.hall],
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self.members = list(map(_member, snapshot["members"]))
        self.hall = [
            Veteran(_member(one["member"]), one["step"]) for one in snapshot.get("hall", [])
        ]
        self.archive = Archive(self.config.archive.cap, map(_problem, snapshot["archive"]))
        self.known, self.cells, self.behaviours = (
            set(snapshot[name]) for name in ("known", "cells", "behaviours")
        )
        self.steps_without_problem, self.steps_without_update, self.ended = (
            snapshot["steps_without_problem"],
            snapshot["steps_without_update"],
            snapshot.get("ended", ""),
        )


def new_world(
    number: int,
    arm: str,
    config: Config,
    first_slot: int,
    seeds: Iterable[Problem],
    source: Source | None = None,
) -> World:
    return World(
        number,
        arm,
        config,
        first_slot,
        _first_members(config),
        Archive(config.archive.cap, seeds),
        source,
    )


def member_id(role: Role, number: int, born: int) -> str:
    """Such as S2 for a first member, and S2.30 for one that was born in its place at step 30."""
    return f"{_LETTERS[role]}{number}" + (f".{born}" if born else "")


def _first_members(config: Config) -> list[Member]:
    rating = config.match.rating.newborn()
    population = config.population
    wanted: list[tuple[Role, int]] = [
        ("teacher", population.teachers),
        ("student", population.students),
    ]
    if config.match.scheme == "self_play":
        wanted = [("both", population.students)]
    roles = [role for role, count in wanted for _ in range(count)]
    counts = dict.fromkeys(_LETTERS, 0)
    members = []
    for slot, role in enumerate(roles):
        own = population.learning_rates[slot] if slot < len(population.learning_rates) else None
        members.append(
            Member(member_id(role, counts[role], 0), role, slot, rating=rating, learning_rate=own)
        )
        counts[role] += 1
    return members


def _fields(problem: Problem) -> dict[str, Any]:
    """What `asdict` gives, for the thousands of problems of an archive: it copies value by value,
    and takes six times as long."""
    author = problem.author
    return {
        **{name: getattr(problem, name) for name in _PROBLEM},
        "complexity": {name: getattr(problem.complexity, name) for name in _COMPLEXITY},
        "author": None if author is None else {"member": author.member, "version": author.version},
    }


_PROBLEM, _COMPLEXITY = (
    tuple(field.name for field in fields(kind)) for kind in (Problem, Complexity)
)


def _member(fields: dict[str, Any]) -> Member:
    return Member(**{**fields, "rating": Rating(**fields["rating"])})


def _problem(fields: dict[str, Any]) -> Problem:
    author = fields["author"]
    return Problem(
        **{
            **fields,
            "inputs": tuple(fields["inputs"]),
            "outputs": tuple(fields["outputs"]),
            "complexity": Complexity(**fields["complexity"]),
            "author": None if author is None else Author(**author),
        }
    )
