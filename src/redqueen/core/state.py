"""One world's part of a step in the making: what each stage adds to it."""

from dataclasses import dataclass, field
from typing import Any

from redqueen.core.world import World
from redqueen.records import (
    Attempt,
    Author,
    Birth,
    Death,
    Pairing,
    Problem,
    Proposal,
    Rejection,
)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Game:
    """What one game says about a pairing."""

    score: float
    """The student's."""
    student_won: bool


@dataclass(slots=True, eq=False)
class PairingState:
    """A pairing of the step and the games it came to."""

    number: int
    pairing: Pairing
    games: list[Game] = field(default_factory=list)


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

    @property
    def teacher(self) -> Author:
        member = self.match.pairing.teacher
        return Author(member.id, member.version)

    @property
    def student(self) -> Author:
        member = self.match.pairing.student
        return Author(member.id, member.version)


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
    births: list[Birth] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def solvable(self) -> list[tuple[ProposalResult, Problem]]:
        """The proposals that are problems."""
        return [
            (result, result.verdict)
            for result in self.results
            if isinstance(result.verdict, Problem)
        ]

    @property
    def problems(self) -> list[Problem]:
        return [problem for _, problem in self.solvable]

    @property
    def attempts(self) -> list[Attempt]:
        return [attempt for result in self.results for attempt in result.attempts]
