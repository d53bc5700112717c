"""One world's part of a step in the making: what each stage adds to it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from redqueen.core.world import Exam, World
from redqueen.records import (
    Attempt,
    Author,
    Birth,
    Death,
    GameTurn,
    Member,
    Pairing,
    PersonAction,
    Problem,
    Proposal,
    Rejection,
)
from redqueen.tasks.games.game import Play

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Game:
    """What one game says about a pairing."""

    score: float
    """The student's; the teacher's where the teacher alone is rated."""
    student_won: bool
    rates: Literal["both", "student", "teacher"] = "both"
    """Whose rating it moves. A student meets the teacher's rating, a teacher that is rated alone
    the mean teacher's."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a pairing: all that its games are decided by."""

    solve_rates: tuple[float | None, ...]
    """The student's, for each proposal; None where it is no problem."""
    reward: float
    """The teacher's, on average over its proposals."""
    expected_reward: float
    """The mean of the teachers of this step."""


@dataclass(slots=True, eq=False)
class PairingState:
    """A pairing of the step and the games it came to."""

    number: int
    pairing: Pairing
    lead: "PairingState | None" = None
    """Where several students meet a teacher's problems: the pairing that they were written for."""
    games: list[Game] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Judged:
    """A proposal, verified and attempted: all that its reward is decided by."""

    verdict: Problem | Rejection
    solve_rate: float = 0.0
    """Share of correct attempts; 0 for a rejection."""
    attempts: int = 0
    solve_rates: tuple[float, ...] = ()
    """Of each student that attempted it."""
    novel: bool = False
    """It behaves like no problem before it in this world."""


@dataclass(slots=True, eq=False)
class PersonResult:
    """What a person did, and what came of it in the step that took it up."""

    number: int
    """Within the step."""
    action: PersonAction
    outcome: str = ""
    """One word: accepted or rejected, vetoed, counted, ignored; of an answer, its verdict."""
    detail: str = ""
    problem: str | None = None
    """Key of the problem that it is about."""


@dataclass(slots=True, eq=False)
class ProposalResult:
    """A proposal and what comes of it. Fixed problems are proposals that nobody wrote."""

    match: PairingState
    prompt: int
    """Proposals with the same number were sampled from one prompt."""
    proposal: Proposal
    payload: Any = None
    """Given for fixed problems: there is no text to read it from."""
    verdict: Problem | Rejection = Rejection("pending")  # noqa: RUF009
    behaviour: str = ""
    novel: bool = False
    """It behaves like no problem before it in this world."""
    new: bool = False
    """The world has not had this problem before."""
    attempts: list[Attempt] = field(default_factory=list)
    solve_rate: float | None = None
    reward: float = 0.0
    advantage: float = 0.0
    attempt_rewards: list[float] = field(default_factory=list)
    attempt_advantages: list[float] = field(default_factory=list)
    person: PersonResult | None = None
    """Where a person posed it."""
    play: Play | None = None
    """The game that goes on after the attempts, where one does."""

    @property
    def turns(self) -> list[GameTurn]:
        """Of the game."""
        return [] if self.play is None else self.play.turns

    @property
    def teacher(self) -> Author:
        member = self.match.pairing.teacher
        return Author(member.id, member.version)

    def attempts_of(self, student: str) -> list[Attempt]:
        return [one for one in self.attempts if one.author and one.author.member == student]


@dataclass(slots=True, eq=False)
class StepState:
    world: World
    step: int
    pairings: list[PairingState] = field(default_factory=list)
    results: list[ProposalResult] = field(default_factory=list)
    updates: list[Row] = field(default_factory=list)
    """What training did, a row for each member that was trained."""
    diverged: list[str] = field(default_factory=list)
    """Members with a non-finite gradient, or with NaN log-probabilities."""
    exam: Exam | None = None
    """What the students answered, in steps with an exam."""
    fitness: list[Row] = field(default_factory=list)
    """Of every member that selection looked at, a row each."""
    replays: list[ProposalResult] = field(default_factory=list)
    """Problems from the archive that students attempt again. They train no teacher."""
    people: list[PersonResult] = field(default_factory=list)
    """What people did, taken up by this step."""
    posed: list[ProposalResult] = field(default_factory=list)
    """Problems that people posed: all students attempt them, and no teacher is trained on them."""
    births: list[Birth] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    def students_of(self, result: ProposalResult) -> list[Member]:
        """Who attempts a proposal."""
        if result.person is not None:
            return self.world.students
        more = [match for match in self.pairings if match.lead is result.match]
        return [match.pairing.student for match in (result.match, *more)]

    @property
    def solvable(self) -> list[tuple[ProposalResult, Problem]]:
        """The proposals that are problems."""
        return _problems(self.results)

    @property
    def replayed(self) -> list[tuple[ProposalResult, Problem]]:
        """Those from the archive."""
        return _problems(self.replays)

    @property
    def posed_problems(self) -> list[tuple[ProposalResult, Problem]]:
        """Those of people."""
        return _problems(self.posed)

    @property
    def attempted(self) -> list[tuple[ProposalResult, Problem]]:
        """All problems that students attempt."""
        return [*self.solvable, *self.posed_problems, *self.replayed]

    @property
    def plays(self) -> list[Play]:
        """The games that went on after the attempts."""
        return [result.play for result in self.results if result.play is not None]

    @property
    def problems(self) -> list[Problem]:
        return [problem for _, problem in self.solvable]

    @property
    def attempts(self) -> list[Attempt]:
        return [attempt for result in self.results for attempt in result.attempts]


def _problems(results: list[ProposalResult]) -> list[tuple[ProposalResult, Problem]]:
    return [(result, result.verdict) for result in results if isinstance(result.verdict, Problem)]


def mean_metrics(states: Sequence[StepState]) -> dict[str, float]:
    """Of several worlds, each over those that have it."""
    if len(states) == 1:
        return states[0].metrics
    names = dict.fromkeys(name for state in states for name in state.metrics)
    return {
        name: statistics.fmean(state.metrics[name] for state in states if name in state.metrics)
        for name in names
    }
