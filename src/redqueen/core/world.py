"""A world: one ecology of members with its archive and its memory of what was there before. All
that a step changes is here."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from redqueen.config.schema import Config
from redqueen.core.archive import Archive
from redqueen.records import Member, Problem, Rating, Role
from redqueen.tasks import load_kind
from redqueen.tasks.kind import load_problem, problem_fields
from redqueen.tasks.sources import Source

_LETTERS: dict[Role, str] = {"teacher": "T", "student": "S", "both": "B"}


@dataclass(frozen=True, slots=True)
class PastMember:
    """A member as it was after a step, in its own adapter slot: it plays, but is not trained."""

    member: Member
    step: int


@dataclass(slots=True)
class World:
    number: int
    arm: str
    """The rules it plays by, by name."""
    config: Config
    first_slot: int
    """Its members' adapter slots in the engine begin here."""
    members: list[Member]
    archive: Archive
    source: Source | None = None
    """Of fixed problems, where nobody invents any."""
    known: set[str] = field(default_factory=set)
    """Keys of all problems there ever were, those that have left the archive too."""
    cells: set[str] = field(default_factory=set)
    """Cells of the coverage map that were visited."""
    behaviours: set[str] = field(default_factory=set)
    steps_without_problem: int = 0
    """Steps in a row without a valid problem."""
    steps_without_update: int = 0
    """Steps in a row in which nobody had anything to learn."""
    stopped: str = ""
    """Why it plays no further, where it does not: it has nothing left to learn from."""
    hall_of_fame: list[PastMember] = field(default_factory=list)
    """Past members that may be met again."""

    @property
    def seed(self) -> int:
        return self.config.seed

    def slot(self, member: Member) -> int:
        """The member's adapter slot in the engine."""
        return self.first_slot + member.slot

    def learning_rate(self, member: Member) -> float:
        """Its own, or that of its role."""
        config = self.config.update
        if member.learning_rate is not None:
            return member.learning_rate
        return (member.role == "teacher" and config.teacher_learning_rate) or config.learning_rate

    def temperature(self, member: Member, role: str) -> float:
        """At which the member samples in a role."""
        stage = self.config.propose if role == "teacher" else self.config.solve
        return member.temperature or stage.temperature

    def by_id(self, name: str) -> Member:
        past = (past.member for past in self.hall_of_fame)
        return next(member for member in (*self.members, *past) if member.id == name)

    def change(self, name: str, **changes: Any) -> None:
        self.members = [
            replace(member, **changes) if member.id == name else member for member in self.members
        ]

    def snapshot(self) -> dict[str, Any]:
        """All of it, as JSON can hold it. Random streams are not there: they follow from the seed
        and the step."""
        return {
            "members": [asdict(member) for member in self.members],
            "archive": [problem_fields(problem) for problem in self.archive],
            "known": sorted(self.known),
            "cells": sorted(self.cells),
            "behaviours": sorted(self.behaviours),
            "steps_without_problem": self.steps_without_problem,
            "steps_without_update": self.steps_without_update,
            "stopped": self.stopped,
            "hall_of_fame": [asdict(past) for past in self.hall_of_fame],
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self.members = [_load_member(fields) for fields in snapshot["members"]]
        self.hall_of_fame = [
            PastMember(_load_member(past["member"]), past["step"])
            for past in snapshot["hall_of_fame"]
        ]
        problems = (
            load_problem(fields, load_kind(fields["kind"])) for fields in snapshot["archive"]
        )
        self.archive = Archive(self.config.archive.cap, problems)
        self.known = set(snapshot["known"])
        self.cells = set(snapshot["cells"])
        self.behaviours = set(snapshot["behaviours"])
        self.steps_without_problem = snapshot["steps_without_problem"]
        self.steps_without_update = snapshot["steps_without_update"]
        self.stopped = snapshot["stopped"]


def new_world(
    number: int,
    arm: str,
    config: Config,
    first_slot: int,
    seeds: Iterable[Problem],
    source: Source | None = None,
) -> World:
    archive = Archive(config.archive.cap, seeds)
    return World(number, arm, config, first_slot, _first_members(config), archive, source)


def member_id(role: Role, number: int, born: int) -> str:
    """Such as S2 for a first member, and S2.30 for one that was born in its place at step 30."""
    return f"{_LETTERS[role]}{number}" + (f".{born}" if born else "")


def _first_members(config: Config) -> list[Member]:
    population = config.population
    counts: list[tuple[Role, int]] = [
        ("teacher", population.teachers),
        ("student", population.students),
    ]
    if config.has_both_roles:
        counts = [("both", population.students)]
    rates = dict(enumerate(population.learning_rates))
    members: list[Member] = []
    for role, count in counts:
        for number in range(count):
            slot, rating = len(members), Rating(config.rate.mu, config.rate.sigma)
            name = member_id(role, number, 0)
            members.append(Member(name, role, slot, rating=rating, learning_rate=rates.get(slot)))
    return members


def _load_member(fields: Mapping[str, Any]) -> Member:
    return Member(**{**fields, "rating": Rating(**fields["rating"])})
