"""Bounds of expressions over domains: what a constraint can still be where there are too many
combinations to go through."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from redqueen.tasks.logic.language import Expression, Value

Box = Sequence[tuple[Value, ...]]
"""The domains of all variables."""
Bounds = Callable[[Box], Any]
"""Of a number its least and its greatest value; of a text the texts it can be; of a truth whether
it can be false, and whether it can be true. Never too narrow."""


def compile_bounds(expression: Expression, places: dict[str, int]) -> Bounds:
    if not isinstance(expression, tuple):
        return _leaf(expression, places)
    name, *parts = expression
    bounds = [compile_bounds(part, places) for part in parts]
    combine = _COMBINE[name]
    return lambda box: combine([bound(box) for bound in bounds])


def _leaf(expression: Expression, places: dict[str, int]) -> Bounds:
    if expression in places:
        place = places[expression]
        return lambda box: _hull(box[place])
    constant = _hull((expression,))
    return lambda box: constant


def _hull(domain: tuple[Any, ...]) -> Any:
    return (min(domain), max(domain)) if isinstance(domain[0], int) else frozenset(domain)


def _equal(sides: list[Any]) -> tuple[bool, bool]:
    left, right = sides
    if isinstance(left, frozenset):
        return not (left == right and len(left) == 1), bool(left & right)
    same = left[0] == left[1] == right[0] == right[1]
    return not same, left[0] <= right[1] and right[0] <= left[1]


def _less(sides: list[Any]) -> tuple[bool, bool]:
    left, right = sides
    return left[1] >= right[0], left[0] < right[1]


def _not(sides: list[Any]) -> tuple[bool, bool]:
    can_be_false, can_be_true = sides[0]
    return can_be_true, can_be_false


def _any(sides: list[Any]) -> tuple[bool, bool]:
    return all(false for false, _ in sides), any(true for _, true in sides)


def _all_different(sides: list[Any]) -> tuple[bool, bool]:
    pairs = [_equal([left, right]) for left, right in combinations(sides, 2)]
    return any(true for _, true in pairs), all(false for false, _ in pairs)


def _times(sides: list[Any]) -> tuple[int, int]:
    low, high = sides[0]
    for other in sides[1:]:
        corners = [one * two for one in (low, high) for two in other]
        low, high = min(corners), max(corners)
    return low, high


def _modulo(sides: list[Any]) -> tuple[int, int]:
    (low, high), (divisor, _) = sides
    if low // divisor == high // divisor:
        return low % divisor, high % divisor
    return 0, divisor - 1


def _absolute(sides: list[Any]) -> tuple[int, int]:
    low, high = sides[0]
    return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


_COMBINE: dict[str, Callable[[list[Any]], Any]] = {
    "=": _equal,
    "!=": lambda sides: _not([_equal(sides)]),
    "<": _less,
    ">": lambda sides: _less(sides[::-1]),
    "<=": lambda sides: _not([_less(sides[::-1])]),
    ">=": lambda sides: _not([_less(sides)]),
    "all_different": _all_different,
    "not": _not,
    "and": lambda sides: _not([_any([_not([side]) for side in sides])]),
    "or": _any,
    "=>": lambda sides: _any([_not([sides[0]]), sides[1]]),
    "+": lambda sides: (sum(low for low, _ in sides), sum(high for _, high in sides)),
    "-": lambda sides: (sides[0][0] - sides[1][1], sides[0][1] - sides[1][0]),
    "*": _times,
    "%": _modulo,
    "abs": _absolute,
    "count": lambda sides: (
        sum(not false for false, _ in sides),
        sum(bool(true) for _, true in sides),
    ),
}
