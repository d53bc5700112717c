"""A step's rows of every table of the ledger."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from redqueen.records import (
    Attempt,
    Birth,
    Death,
    GameTurn,
    Member,
    Problem,
    Proposal,
    Rejection,
)
from redqueen.tasks import load_kind
from redqueen.tasks.kind import payload_fields

if TYPE_CHECKING:
    from redqueen.core.state import Game, PersonResult, StepState

Row = dict[str, Any]


def step_rows(state: "StepState") -> dict[str, list[Row]]:
    where = {"world": state.world.number, "step": state.step}
    metrics = state.metrics.items()
    tables = {
        "pairings": _pairing_rows(state),
        "problems": _problem_rows(state),
        "proposals": _proposal_rows(state),
        "attempts": _attempt_rows(state),
        "turns": _turn_rows(state),
        "ratings": (rating_row(member) for member in state.world.members),
        "role_ratings": _role_rating_rows(state),
        "exams": _exam_rows(state),
        "people": (person_row(person) for person in state.people),
        "fitness": state.fitness,
        "updates": state.updates,
        "births": (birth_row(birth) for birth in state.births),
        "deaths": (_death_row(death) for death in state.deaths),
        "metrics": (
            {"name": name, "value": value} for name, value in metrics if math.isfinite(value)
        ),
    }
    return {table: [{**where, **row} for row in rows] for table, rows in tables.items()}


def _pairing_rows(state: "StepState") -> Iterator[Row]:
    for match in state.pairings:
        results = [result for result in state.results if result.match is (match.lead or match)]
        attempts = [
            attempt
            for result in results
            for attempt in result.attempts_of(match.pairing.student.id)
            if attempt.verdict != "voided"
        ]
        games = [game for game in match.games if game.rates != "teacher"]
        yield {
            "pairing": match.number,
            "teacher": match.pairing.teacher.id,
            "student": match.pairing.student.id,
            "expected": match.pairing.expected,
            "score": sum(game.score for game in games) / len(games) if games else None,
            "winner": _winner(games),
            "proposals": len(results),
            "valid": sum(isinstance(result.verdict, Problem) for result in results),
            "attempts": len(attempts),
            "correct": sum(attempt.verdict == "correct" for attempt in attempts),
        }


def _problem_rows(state: "StepState") -> Iterator[Row]:
    for result, problem in [*state.solvable, *state.posed_problems]:
        if result.new:
            kind = load_kind(problem.kind)
            yield {
                "problem": problem.key,
                "kind": problem.kind,
                "author": None if problem.author is None else problem.author.member,
                "payload": json.dumps(payload_fields(problem.payload)),
                "gold": json.dumps(problem.gold),
                "features": json.dumps(problem.features),
                "structure": kind.structure(problem),
                "behaviour": result.behaviour,
                "cell": kind.cell(problem),
                "derived": int(kind.derived),
            }


def _proposal_rows(state: "StepState") -> Iterator[Row]:
    for number, result in enumerate([*state.results, *state.posed]):
        proposal, verdict = result.proposal, result.verdict
        rejection = verdict if isinstance(verdict, Rejection) else None
        yield {
            "proposal": number,
            "pairing": result.match.number,
            "teacher": result.teacher.member,
            "version": result.teacher.version,
            "kind": proposal.kind,
            "prompt": result.prompt,
            "shown": json.dumps([problem.key for problem in proposal.references]),
            "text": proposal.text,
            **_rollout_columns(proposal),
            "problem": verdict.key if isinstance(verdict, Problem) else None,
            "rejection": rejection.reason if rejection else None,
            "detail": rejection.detail if rejection else "",
            "solve_rate": result.solve_rate,
            "reward": result.reward,
            "advantage": result.advantage,
        }


def _attempt_rows(state: "StepState") -> Iterator[Row]:
    replays = ((-1 - number, result) for number, result in enumerate(state.replays))
    numbered = [*enumerate([*state.results, *state.posed]), *replays]
    for number, result in numbered:
        for place, attempt in enumerate(result.attempts):
            yield {
                "proposal": number,
                "attempt": place,
                "problem": attempt.problem.key,
                "student": attempt.author.member if attempt.author else "",
                "version": attempt.author.version if attempt.author else 0,
                "text": attempt.text,
                **_rollout_columns(attempt),
                "verdict": attempt.verdict,
                "detail": attempt.detail,
                "reward": result.attempt_rewards[place],
                "advantage": result.attempt_advantages[place],
            }


def _turn_rows(state: "StepState") -> Iterator[Row]:
    for number, result in enumerate(state.results):
        if (play := result.play) is None:
            continue
        for place, turn in enumerate(play.turns):
            yield {
                "proposal": number,
                "turn": place,
                "game": play.game,
                "problem": play.problem.key,
                "round": turn.round,
                "role": turn.role,
                "member": turn.author.member if turn.author else "",
                "version": turn.author.version if turn.author else 0,
                "prompt": turn.prompt,
                "shown": json.dumps(turn.shown),
                "text": turn.text,
                **_rollout_columns(turn),
                "said": turn.said,
                "truth": turn.truth,
                "verdict": turn.verdict,
                "detail": turn.detail,
                "reward": play.rewards[place],
                "advantage": play.advantages[place],
            }


def _role_rating_rows(state: "StepState") -> Iterator[Row]:
    for role, ratings in state.world.role_ratings.items():
        for member, rating in ratings.items():
            yield {"member": member, "role": role, "mu": rating.mu, "sigma": rating.sigma}


def _exam_rows(state: "StepState") -> Iterator[Row]:
    if state.exam is None:
        return
    for member, correct in state.exam.correct.items():
        for problem, solved in zip(state.exam.problems, correct, strict=True):
            yield {
                "member": member,
                "problem": problem.key,
                "attempts": state.exam.attempts,
                "correct": solved,
            }


def person_row(person: "PersonResult") -> Row:
    action = person.action
    return {
        "number": person.number,
        "author": action.author,
        "action": action.action,
        "content": json.dumps(action.content, ensure_ascii=False),
        "problem": person.problem,
        "outcome": person.outcome,
        "detail": person.detail,
    }


def rating_row(member: Member) -> Row:
    rating = member.rating
    return {
        "member": member.id,
        "role": member.role,
        "version": member.version,
        "mu": rating.mu,
        "sigma": rating.sigma,
    }


def birth_row(birth: Birth) -> Row:
    member = birth.member
    return {
        "member": member.id,
        "role": member.role,
        "slot": member.slot,
        "parents": json.dumps(birth.parents),
        "operator": birth.operator,
        "settings": json.dumps(birth.settings, sort_keys=True),
        "mu": member.rating.mu,
        "sigma": member.rating.sigma,
    }


def _death_row(death: Death) -> Row:
    rating = death.member.rating
    return {
        "member": death.member.id,
        "reason": death.reason,
        "mu": rating.mu,
        "sigma": rating.sigma,
    }


def _winner(games: Sequence["Game"]) -> str | None:
    if not games:
        return None
    return "student" if sum(game.student_won for game in games) * 2 > len(games) else "teacher"


def _rollout_columns(record: Proposal | Attempt | GameTurn) -> Row:
    """What sampling left of a text; nothing for one that nobody wrote."""
    rollout = record.rollout
    if rollout is None:
        return {"tokens": 0, "logprob": 0.0, "finish_reason": "stop"}
    logprob = -math.inf if math.isnan(rollout.logprob) else rollout.logprob
    return {
        "tokens": len(rollout.tokens),
        "logprob": logprob,
        "finish_reason": rollout.finish_reason,
    }
