"""One world's part of a step in the making: what each stage adds, and what it comes to in the
ledger."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from redqueen.core.world import World
from redqueen.records import Attempt, Member, Pairing, Problem, Proposal, Rejection, content_key
from redqueen.stages.rate.outcome import Game
from redqueen.tasks.code.coverage import cell

Row = dict[str, Any]


@dataclass(slots=True)
class ProposalResult:
    """A proposal and what comes of it."""

    pairing: int
    prompt: int
    """Proposals with the same number were drawn from one prompt."""
    proposal: Proposal
    verdict: Problem | Rejection = Rejection("pending")
    behaviour: str = ""
    novel: bool = False
    """Its program behaves like none before."""
    new: bool = False
    """The world has not had this problem before."""
    attempts: list[Attempt] = field(default_factory=list)
    solve_rate: float | None = None
    reward: float = 0.0
    advantage: float = 0.0
    attempt_rewards: list[float] = field(default_factory=list)
    attempt_advantages: list[float] = field(default_factory=list)


@dataclass(slots=True)
class StepState:
    world: World
    step: int
    pairings: list[Pairing] = field(default_factory=list)
    posed: list[ProposalResult] = field(default_factory=list)
    games: list[list[Game]] = field(default_factory=list)
    updates: list[Row] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Members whose gradient, or the probability of what they wrote, is no number."""
    births: list[Row] = field(default_factory=list)
    deaths: list[Row] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def problems(self) -> list[ProposalResult]:
        return [posed for posed in self.posed if isinstance(posed.verdict, Problem)]

    def rows(self) -> dict[str, list[Row]]:
        """The step's rows of every table of the ledger."""
        where = {"world": self.world.number, "step": self.step}
        tables = {
            "pairings": self._pairings(),
            "problems": self._problems(),
            "proposals": self._proposals(),
            "attempts": self._attempts(),
            "ratings": (rating_row(member) for member in self.world.members),
            "updates": self.updates,
            "births": self.births,
            "deaths": self.deaths,
            "metrics": (
                {"name": name, "value": value}
                for name, value in self.metrics.items()
                if math.isfinite(value)
            ),
        }
        return {table: [{**where, **row} for row in rows] for table, rows in tables.items()}

    def _pairings(self) -> Iterator[Row]:
        for number, (pairing, games) in enumerate(zip(self.pairings, self.games, strict=True)):
            mine = [posed for posed in self.posed if posed.pairing == number]
            attempts = [attempt for posed in mine for attempt in posed.attempts]
            yield {
                "pairing": number,
                "teacher": pairing.teacher.id,
                "student": pairing.student.id,
                "expected": pairing.expected,
                "score": sum(game.score for game in games) / len(games) if games else None,
                "winner": _winner(games),
                "proposals": len(mine),
                "valid": sum(isinstance(posed.verdict, Problem) for posed in mine),
                "attempts": len(attempts),
                "correct": sum(attempt.verdict == "correct" for attempt in attempts),
            }

    def _problems(self) -> Iterator[Row]:
        for posed in self.problems:
            if posed.new and isinstance(posed.verdict, Problem):
                yield problem_row(posed.verdict, posed.behaviour)

    def _proposals(self) -> Iterator[Row]:
        for number, posed in enumerate(self.posed):
            proposal, verdict, pairing = posed.proposal, posed.verdict, self.pairings[posed.pairing]
            rejection = verdict if isinstance(verdict, Rejection) else None
            yield {
                "proposal": number,
                "pairing": posed.pairing,
                "teacher": pairing.teacher.id,
                "version": pairing.teacher.version,
                "kind": proposal.kind,
                "prompt": posed.prompt,
                "shown": json.dumps([problem.key for problem in proposal.references]),
                "text": proposal.text,
                **_written(proposal),
                "problem": verdict.key if isinstance(verdict, Problem) else None,
                "rejection": rejection.reason if rejection else None,
                "detail": rejection.detail if rejection else "",
                "solve_rate": posed.solve_rate,
                "reward": posed.reward,
                "advantage": posed.advantage,
            }

    def _attempts(self) -> Iterator[Row]:
        for number, posed in enumerate(self.posed):
            student = self.pairings[posed.pairing].student
            for turn, attempt in enumerate(posed.attempts):
                yield {
                    "proposal": number,
                    "attempt": turn,
                    "problem": attempt.problem.key,
                    "student": student.id,
                    "version": student.version,
                    "text": attempt.text,
                    **_written(attempt),
                    "verdict": attempt.verdict,
                    "detail": attempt.detail,
                    "reward": posed.attempt_rewards[turn],
                    "advantage": posed.attempt_advantages[turn],
                }


def problem_row(problem: Problem, behaviour: str) -> Row:
    payload = {
        "program": problem.program,
        "inputs": problem.inputs,
        "message": problem.message,
    }
    features = {
        **{name: getattr(problem.complexity, name) for name in _COMPLEXITY},
        "steps_executed": problem.steps,
    }
    return {
        "problem": problem.key,
        "kind": problem.kind,
        "author": None if problem.author is None else problem.author.member,
        "payload": json.dumps(payload),
        "gold": json.dumps(problem.outputs),
        "features": features,
        "structure": content_key(problem.canonical),
        "behaviour": behaviour,
        "cell": cell(problem),
        "derived": int(problem.kind == "code_f"),
    }


_COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")


def rating_row(member: Member) -> Row:
    return {
        "member": member.id,
        "role": member.role,
        "version": member.version,
        "mu": member.rating.mu,
        "sigma": member.rating.sigma,
    }


def birth_row(
    member: Member,
    parents: Sequence[str] = (),
    operator: str = "new",
    settings: dict[str, Any] | None = None,
) -> Row:
    return {
        "member": member.id,
        "role": member.role,
        "slot": member.slot,
        "parents": json.dumps(list(parents)),
        "operator": operator,
        "settings": json.dumps(settings or {}, sort_keys=True),
        "mu": member.rating.mu,
        "sigma": member.rating.sigma,
    }


def rejections(posed: Sequence[ProposalResult]) -> Counter[str]:
    return Counter(one.verdict.reason for one in posed if isinstance(one.verdict, Rejection))


def _winner(games: Sequence[Game]) -> str | None:
    if not games:
        return None
    return "student" if sum(game.student_won for game in games) * 2 > len(games) else "teacher"


def _written(record: Proposal | Attempt) -> Row:
    """What sampling left of a text; nothing for one that nobody wrote."""
    if record.rollout is None:
        return {"tokens": 0, "logprob": 0.0, "finish_reason": "stop"}
    logprob = record.rollout.logprob
    return {
        "tokens": len(record.rollout.tokens),
        "logprob": -math.inf if math.isnan(logprob) else logprob,
        "finish_reason": record.rollout.finish_reason,
    }
