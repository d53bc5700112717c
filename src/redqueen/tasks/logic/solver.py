"""An exact solver for puzzles: propagation and backtracking, bounded by a budget of its own.

A solver of our own, because a puzzle is judged by how it is solved: rounds of propagation and nodes
of search are its difficulty, and the budget counts evaluated parts of constraints, not seconds, so
that a verdict depends on the puzzle alone. `python-constraint` tells none of this and cannot be
bounded; OR-tools and SAT solvers are heavy, and far too strong for what is solved in the head.

Propagation looks at one constraint at a time. Where few combinations of values are left it goes
through them and keeps the values that occur in one that is allowed; where there are many it
compares bounds. All constraints of a round see the domains as they were before it, so the number of
rounds does not depend on the order in which constraints are written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from redqueen.tasks.logic.bounds import compile_bounds
from redqueen.tasks.logic.language import Expression, Puzzle, Value, names, size, subexpressions

BUDGET = 400_000
"""Parts of constraints that are evaluated for one puzzle: about 0.2 seconds."""
_ENUMERATED = 400
"""Combinations of values up to which a constraint is enumerated."""
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip

Domains = list[tuple[Value, ...]]
Test = Callable[[list[Value]], Any]


class OverBudget(Exception):
    """The puzzle takes more than the budget."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What the solver found."""

    solutions: tuple[dict[str, Value], ...]
    """None, the only one, or the first two of many."""
    rounds: int
    """Of propagation, before anything is assumed."""
    nodes: int
    """Assumptions that the search made; 0: propagation alone solves it."""
    left: tuple[int, ...]
    """Values that the first propagation leaves of every variable."""


def solve(puzzle: Puzzle, budget: int = BUDGET) -> Solution:
    """All solutions up to two. Raises OverBudget."""
    return _Solver(puzzle, budget).solve()


class _Constraint:
    def __init__(self, expression: Expression, places: dict[str, int]) -> None:
        self.scope = sorted(places[name] for name in names(expression) if name in places)
        self.size = _cost(expression)
        self.test = compile_test(expression, places)
        self.bounds = compile_bounds(expression, places)


class _Solver:
    def __init__(self, puzzle: Puzzle, budget: int) -> None:
        self.names, self.budget, self.nodes = list(puzzle.variables), budget, 0
        places = {name: place for place, name in enumerate(self.names)}
        self.domains: Domains = list(puzzle.variables.values())
        self.constraints = [_Constraint(one, places) for one in puzzle.constraints]
        self.touching = [
            [one for one in self.constraints if place in one.scope] for place in places.values()
        ]
        self.solutions: list[dict[str, Value]] = []

    def solve(self) -> Solution:
        domains, rounds = self.propagate(self.domains, self.constraints)
        if domains is not None:
            self.search(domains)
        left = tuple(len(domain) for domain in domains or [])
        return Solution(tuple(self.solutions), rounds, self.nodes, left)

    def search(self, domains: Domains) -> None:
        open_places = [place for place, domain in enumerate(domains) if len(domain) > 1]
        if not open_places:
            values = (domain[0] for domain in domains)
            self.solutions.append(dict(zip(self.names, values, strict=True)))
            return
        place = min(open_places, key=lambda one: (len(domains[one]), -len(self.touching[one])))
        for value in domains[place]:
            self.nodes += 1
            assumed = [*domains]
            assumed[place] = (value,)
            below, _ = self.propagate(assumed, self.touching[place])
            if below is not None:
                self.search(below)
            if len(self.solutions) > 1:
                return

    def propagate(
        self, domains: Domains, pending: Sequence[_Constraint]
    ) -> tuple[Domains | None, int]:
        """What is left of the domains, None where nothing is; and the number of rounds."""
        rounds = 0
        while pending:
            kept: dict[int, set[Value]] = {}
            for constraint in pending:
                for place, values in self.supported(constraint, domains).items():
                    kept[place] = kept[place] & values if place in kept else values
            changed = [place for place, values in kept.items() if len(values) < len(domains[place])]
            if not all(kept.values()):
                return None, rounds
            if changed:
                rounds += 1
            domains = [*domains]
            for place in changed:
                domains[place] = tuple(v for v in domains[place] if v in kept[place])
            pending = list(
                {id(one): one for place in changed for one in self.touching[place]}.values()
            )
        return domains, rounds

    def supported(self, constraint: _Constraint, domains: Domains) -> dict[int, set[Value]]:
        """By variable: the values that one constraint leaves it."""
        scope = constraint.scope
        combinations = prod(len(domains[place]) for place in scope)
        kept: dict[int, set[Value]] = {place: set() for place in scope}
        if combinations <= _ENUMERATED:
            self.spend(combinations * constraint.size)
            values: list[Value] = [0] * len(domains)
            for combination in product(*(domains[place] for place in scope)):
                for place, value in zip(scope, combination, strict=True):
                    values[place] = value
                if constraint.test(values):
                    for place, value in zip(scope, combination, strict=True):
                        kept[place].add(value)
            return kept
        self.spend(constraint.size * sum(len(domains[place]) for place in scope))
        box = [*domains]
        for place in scope:
            for value in domains[place]:
                box[place] = (value,)
                if constraint.bounds(box)[1]:
                    kept[place].add(value)
            box[place] = domains[place]
        return kept

    def spend(self, parts: int) -> None:
        self.budget -= parts + 10
        if self.budget < 0:
            raise OverBudget


def _cost(expression: Expression) -> int:
    """Its parts; bounds of `all_different` compare every pair."""
    pairs = sum(len(part) ** 2 for part in subexpressions(expression) if part[0] == "all_different")
    return size(expression) + pairs // 2


def compile_test(expression: Expression, places: dict[str, int]) -> Test:
    """A function from the values of all variables to the value of the expression."""
    if not isinstance(expression, tuple):
        if expression in places:
            place = places[expression]
            return lambda values: values[place]
        return lambda values: expression
    name, *parts = expression
    tests = [compile_test(part, places) for part in parts]
    if name in _COMPARE:
        compare, (left, right) = _COMPARE[name], tests
        return lambda values: compare(left(values), right(values))
    return _combine(name, tests)


def _combine(name: str, tests: list[Test]) -> Test:
    first, last = tests[0], tests[-1]
    match name:
        case "all_different":
            return lambda values: len({test(values) for test in tests}) == len(tests)
        case "not":
            return lambda values: not first(values)
        case "and":
            return lambda values: all(test(values) for test in tests)
        case "or":
            return lambda values: any(test(values) for test in tests)
        case "=>":
            return lambda values: not first(values) or last(values)
        case "+":
            return lambda values: sum(test(values) for test in tests)
        case "-":
            return lambda values: first(values) - last(values)
        case "*":
            return lambda values: prod(test(values) for test in tests)
        case "%":
            return lambda values: first(values) % last(values)
        case "abs":
            return lambda values: abs(first(values))
        case "count":
            return lambda values: sum(bool(test(values)) for test in tests)
    raise AssertionError(name)
