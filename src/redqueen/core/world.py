"""A world: one ecology of members with its archive and its memory of what was there before. All
that a step changes is here."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from redqueen.config.schema import Config
from redqueen.core.archive import Archive, LastSolved
from redqueen.records import Birth, Member, Problem, Rating, Role
from redqueen.tasks import stored_kind
from redqueen.tasks.kind import load_problem, problem_fields
from redqueen.tasks.sources import Source

_LETTERS: dict[Role, str] = {"teacher": "T", "student": "S", "both": "B"}


@dataclass(frozen=True, slots=True)
class PastMember:
    """A member as it was after a step, in its own adapter slot: it plays, but is not trained."""

    member: Member
    step: int
    fitness: float = 0.0
    """When it was kept."""


@dataclass(frozen=True, slots=True)
class Exam:
    """What all students of a world answered to the same archived problems. Nobody is trained on
    it."""

    problems: tuple[Problem, ...]
    attempts: int
    """Of each student at each problem."""
    correct: Mapping[str, tuple[int, ...]]
    """By student: correct answers to each problem."""
    skills: Mapping[str, float]
    """By student, as fitted: what students are ranked by."""
    tokens: int = 0


@dataclass(slots=True)
class Evidence:
    """What fitness is judged by: all since members were last replaced, and the exam."""

    rewards: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By teacher: the sum over its proposals, and their number."""
    taught: dict[str, Counter[str]] = field(default_factory=dict)
    """By teacher: attempts at its problems, by student."""
    before: dict[str, float] = field(default_factory=dict)
    """By student: its skill in the exam before."""
    exam: Exam | None = None
    """Of this step."""

    def snapshot(self) -> dict[str, Any]:
        """As JSON can hold it. The exam is over when the step is."""
        return {"rewards": self.rewards, "taught": self.taught, "before": self.before}


Side = tuple[str, str]
"""A problem that people compared with another: its teacher and its structure."""


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
    steps_adrift: dict[str, int] = field(default_factory=dict)
    """By what `stop.drift` watches: steps in a row above its threshold."""
    stopped: str = ""
    """Why it plays no further, where it does not: it has nothing left to learn from."""
    hall_of_fame: list[PastMember] = field(default_factory=list)
    """Past members that may be met again."""
    evidence: Evidence = field(default_factory=Evidence)
    teacher_rate_factor: float = 1.0
    """On teachers' learning rates, steered toward update.target_pass_rate."""
    trained_tokens: int = 0
    rates_rise_from: dict[str, int] = field(default_factory=dict)
    """Members whose optimizers have begun anew since birth, with their versions then."""
    chosen: str = ""
    """The fittest student, as of the last time that fitness was judged."""
    vetoed: set[str] = field(default_factory=set)
    """Keys of problems and structures that people do not want."""
    comparisons: list[tuple[Side, Side]] = field(default_factory=list)
    """Of two problems, the one that a person found better comes first."""
    role_ratings: dict[str, dict[str, Rating]] = field(default_factory=dict)
    """By role of a game, and member."""

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def has_enough_tokens(self) -> bool:
        """Whether it has trained on as many as it was to."""
        return 0 < self.config.stop.tokens <= self.trained_tokens

    @property
    def students(self) -> list[Member]:
        """Members that solve problems."""
        return [member for member in self.members if member.role != "teacher"]

    def slot(self, member: Member) -> int:
        """The member's adapter slot in the engine."""
        return self.first_slot + member.slot

    def learning_rate(self, member: Member) -> float:
        """What it is trained with now."""
        factor = self.teacher_rate_factor if member.role == "teacher" else 1.0
        if rising := self.config.update.warmup_steps:
            updates = member.version - self.rates_rise_from.get(member.id, 0)
            factor *= min(1.0, (updates + 1) / rising)
        return factor * self.own_learning_rate(member)

    def own_learning_rate(self, member: Member) -> float:
        """Its own, or that of its role."""
        config = self.config.update
        if member.learning_rate is not None:
            return member.learning_rate
        if member.role == "teacher" and config.teacher_learning_rate is not None:
            return config.teacher_learning_rate
        return config.learning_rate

    def temperature(self, member: Member, role: str) -> float:
        """At which the member samples in a role."""
        stage = self.config.propose if role == "teacher" else self.config.solve
        return member.temperature or stage.temperature

    def role_rating(self, name: str, role: str) -> Rating:
        """How good a member is in a role of a game."""
        new = Rating(self.config.rate.mu, self.config.rate.sigma)
        return self.role_ratings.get(role, {}).get(name, new)

    def pass_on_role_ratings(self, births: Sequence[Birth]) -> None:
        """Children inherit, as they do for their rating; who is gone is forgotten."""
        inherits = self.config.evolve.child.rating == "inherit"
        living = {member.id for member in self.members}
        for role, ratings in self.role_ratings.items():
            for birth in births if inherits else ():
                known = [ratings[parent] for parent in birth.parents if parent in ratings]
                if known:
                    mu = sum(rating.mu for rating in known) / len(known)
                    sigma = sum(rating.sigma for rating in known) / len(known)
                    ratings[birth.member.id] = Rating(mu, sigma)
            self.role_ratings[role] = {n: r for n, r in ratings.items() if n in living}

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
            "last_solved": {
                key: [last.solve_rate, last.step] for key, last in self.archive.last_solved.items()
            },
            "known": sorted(self.known),
            "cells": sorted(self.cells),
            "behaviours": sorted(self.behaviours),
            "steps_without_problem": self.steps_without_problem,
            "steps_without_update": self.steps_without_update,
            "steps_adrift": self.steps_adrift,
            "stopped": self.stopped,
            "hall_of_fame": [asdict(past) for past in self.hall_of_fame],
            "evidence": self.evidence.snapshot(),
            "chosen": self.chosen,
            "teacher_rate_factor": self.teacher_rate_factor,
            "trained_tokens": self.trained_tokens,
            "rates_rise_from": self.rates_rise_from,
            "vetoed": sorted(self.vetoed),
            "comparisons": self.comparisons,
            "role_ratings": {
                role: {member: [rating.mu, rating.sigma] for member, rating in ratings.items()}
                for role, ratings in self.role_ratings.items()
            },
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self.members = [_load_member(fields) for fields in snapshot["members"]]
        self.hall_of_fame = [
            PastMember(_load_member(past["member"]), past["step"], past["fitness"])
            for past in snapshot["hall_of_fame"]
        ]
        problems = (
            load_problem(fields, stored_kind(fields["kind"])) for fields in snapshot["archive"]
        )
        self.archive = Archive(self.config.archive.cap, problems)
        self.archive.last_solved = {
            key: LastSolved(*last) for key, last in snapshot["last_solved"].items()
        }
        self.known = set(snapshot["known"])
        self.cells = set(snapshot["cells"])
        self.behaviours = set(snapshot["behaviours"])
        self.steps_without_problem = snapshot["steps_without_problem"]
        self.steps_without_update = snapshot["steps_without_update"]
        self.steps_adrift = dict(snapshot.get("steps_adrift", {}))
        self.stopped = snapshot["stopped"]
        self.chosen = snapshot["chosen"]
        self.teacher_rate_factor = snapshot["teacher_rate_factor"]
        self.trained_tokens = snapshot["trained_tokens"]
        self.rates_rise_from = dict(snapshot.get("rates_rise_from", {}))
        self.vetoed = set(snapshot["vetoed"])
        self.comparisons = [
            ((better[0], better[1]), (worse[0], worse[1]))
            for better, worse in snapshot["comparisons"]
        ]
        self.role_ratings = {
            role: {member: Rating(*rating) for member, rating in ratings.items()}
            for role, ratings in snapshot["role_ratings"].items()
        }
        evidence = snapshot["evidence"]
        self.evidence = Evidence(
            {teacher: (total, count) for teacher, (total, count) in evidence["rewards"].items()},
            {teacher: Counter(students) for teacher, students in evidence["taught"].items()},
            evidence["before"],
        )


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
