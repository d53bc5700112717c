"""Puzzles: a teacher writes variables and constraints, a student finds the only assignment that
satisfies them.

Nothing that a model wrote is executed: a puzzle is data, and the solver that reads it is ours and
bounded. There is one correct answer, so grading compares texts.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log10
from random import Random
from typing import Any

from redqueen.records import Problem, content_key
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.kind import Block, Kind, Malformed, Reject, Request, RunRules, Verified, take
from redqueen.tasks.logic.examples import EXAMPLES
from redqueen.tasks.logic.language import (
    Expression,
    Puzzle,
    Value,
    read_json,
    read_puzzle,
    size,
    subexpressions,
    write_puzzle,
)
from redqueen.tasks.logic.solver import OverBudget, Solution, solve
from redqueen.tasks.logic.texts import FEW_SHOT, PROPOSE, SOLVE

_FAMILIES = {
    "order": {"<", "<=", ">", ">="},
    "sums": {"+", "-", "*", "%", "abs"},
    "different": {"all_different", "!="},
    "logic": {"not", "and", "or", "=>"},
    "count": {"count"},
}
_LINE = re.compile(r'"?(\w+)"?\s*[:=]\s*"?(-?\w+)"?')


class Logic(Kind):
    name = "logic"
    payload = Puzzle
    system = "You are a careful solver of logic puzzles."
    summary = "find the only assignment that satisfies all constraints"
    reference_count = 3
    proposal_blocks = ("puzzle",)
    answer_blocks = ("assignment",)
    level = 2
    """A puzzle that propagation alone solves in fewer rounds is trivial."""

    def seeds(self) -> Sequence[Puzzle]:
        return [read_puzzle(example) for example in EXAMPLES]

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        return self.request(
            "teacher",
            PROPOSE,
            examples=tuple(self.show(problem) for problem in references),
            few_shot=FEW_SHOT["teacher"],
        )

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Puzzle:
        return read_puzzle(read_json(take(blocks, "puzzle")))

    def verification(self, payload: Puzzle, rules: RunRules) -> Job | None:
        return None

    def verified(self, payload: Puzzle, outcome: Outcome | None, rules: RunRules) -> Verified:
        try:
            found = solve(payload)
        except OverBudget:
            raise Reject("too_hard", "the solver's budget is spent") from None
        if not found.solutions:
            raise Reject("unsolvable", "no assignment satisfies all constraints")
        if len(found.solutions) > 1:
            raise Reject("ambiguous", f"{_write(found.solutions[0])}, {_write(found.solutions[1])}")
        if not found.nodes and found.rounds < self.level:
            raise Reject(
                "trivial", f"{found.rounds} rounds of propagation solve it, at least {self.level}"
            )
        gold = _write(found.solutions[0])
        return Verified(payload, (gold,), _features(payload, found), _canonical(payload))

    def ask_answer(self, problem: Problem) -> Request:
        given = (("puzzle", write_puzzle(problem.payload)),)
        return self.request("student", SOLVE, given, few_shot=FEW_SHOT["student"])

    def without_evidence(self, problem: Problem, rng: Random) -> Request | None:
        """The constraints are about other variables of the same domain."""
        puzzle: Puzzle = problem.payload
        others = dict(zip(puzzle.variables, shuffle_alike(puzzle.variables, rng), strict=True))
        if all(name == other for name, other in others.items()):
            return None
        constraints = tuple(_rename(one, others) for one in puzzle.constraints)
        return self.ask_answer(replace(problem, payload=replace(puzzle, constraints=constraints)))

    def read_answer(self, blocks: Sequence[Block]) -> str:
        """A JSON object, or a line for each variable, as in `a = 3`."""
        text = take(blocks, "assignment").strip()
        if not text.startswith("{"):
            lines = [_LINE.fullmatch(line.strip(" ,")) for line in text[:2000].splitlines()]
            if not lines or None in lines:
                raise Malformed("expected a JSON object of variables and values")
            pairs = [(line[1], line[2]) for line in lines if line]
            values = {name: _number(value) for name, value in pairs}
            if len(values) < len(pairs):
                raise Malformed("a name is given twice")
            return _write(values)
        fields = read_json(text)
        if not fields or not all(type(value) in (int, str) for value in fields.values()):
            raise Malformed("expected a number or a text for every variable")
        # a domain has no text of digits, so "3" can only mean 3
        return _write({name: _number(str(value)) for name, value in fields.items()})

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return answer == problem.gold[0]

    def show(self, problem: Problem) -> tuple[Block, ...]:
        return ("puzzle", write_puzzle(problem.payload)), ("assignment", problem.gold[0])

    def structure(self, problem: Problem) -> str:
        return content_key(*_canonical(problem.payload, values=False))[:16]

    def cell(self, problem: Problem) -> str:
        features = problem.features
        used = {part[0] for one in problem.payload.constraints for part in subexpressions(one)}
        families = "+".join(name for name, own in _FAMILIES.items() if own & used) or "equal"
        depth = f"n{len(bin(int(features['search_nodes']))) - 2}" if features["search_nodes"] else (
            f"r{min(int(features['rounds']), 9)}"
        )  # fmt: skip
        return f"logic/v{int(features['variables']) // 2}/{depth}/{families}"

    def behaviour(self, problem: Problem, outcome: Outcome | None) -> str:
        """How it is solved: what is left when propagation ends, and what it takes from there."""
        left = sorted(solve(problem.payload).left)
        took = (problem.features["rounds"], problem.features["search_nodes"])
        return content_key("logic", str(left), str(took))[:16]

    def load_payload(self, fields: Mapping[str, Any]) -> Puzzle:
        return read_puzzle({name: fields.get(name) for name in ("variables", "constraints")})


def _features(puzzle: Puzzle, found: Solution) -> dict[str, float]:
    domains = puzzle.variables.values()
    return {
        "variables": len(puzzle.variables),
        "constraints": len(puzzle.constraints),
        "parts": sum(map(size, puzzle.constraints)),
        "space": round(sum(log10(len(domain)) for domain in domains), 3),
        "rounds": found.rounds,
        "search_nodes": found.nodes,
    }


def _canonical(puzzle: Puzzle, values: bool = True) -> tuple[str, ...]:
    """The puzzle without its names, and on demand without its values: variables numbered in their
    order, constraints sorted."""
    places = {name: f"v{place}" for place, name in enumerate(puzzle.variables)}
    taken = {place: f"={place}" for place in places.values()}  # values that look like variables

    def rename(part: Expression) -> Any:
        if isinstance(part, tuple):
            return [part[0], *map(rename, part[1:])]
        return places.get(part, taken.get(part, part) if values else "value")

    domains = [list(domain) if values else len(domain) for domain in puzzle.variables.values()]
    return (json.dumps(domains), *sorted(json.dumps(rename(one)) for one in puzzle.constraints))


def shuffle_alike(variables: Mapping[str, tuple[Value, ...]], rng: Random) -> list[str]:
    """The variables in another order, each in the place of one with its domain."""
    alike: dict[tuple[Value, ...], list[str]] = {}
    for name, domain in variables.items():
        alike.setdefault(domain, []).append(name)
    left = {domain: rng.sample(names, len(names)) for domain, names in alike.items()}
    return [left[domain].pop() for domain in variables.values()]


def _rename(part: Expression, others: Mapping[str, str]) -> Expression:
    if isinstance(part, tuple):
        return (part[0], *(_rename(one, others) for one in part[1:]))
    return others.get(part, part) if isinstance(part, str) else part


def _write(assignment: Mapping[str, Value]) -> str:
    return json.dumps(dict(sorted(assignment.items())))


def _number(text: str) -> Value:
    return int(text) if re.fullmatch(r"-?[0-9]{1,6}", text) else text
