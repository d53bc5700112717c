"""Attempts at deduction with one mistake in them, followed through to the answer, as Pawn writes
them: some steps are worked out, one of them comes to a wrong value, or is read wrongly.

How often each mistake is made is what was seen in 2,502 wrong attempts of Pawn at temperature 1, at
the problems of `heldout-deduction`: 78 % begin with a wrong value at a step, 13 % with another step
than the true one, 4 % have a wrong answer after correct steps, and 3 % leave steps out at the end.
"""

import ast
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from redqueen.pawn.careful import CarefulRun
from redqueen.pawn.grammar import LETTERS
from redqueen.pawn.programs import Program
from redqueen.pawn.runs import RAISED, write_bounded
from redqueen.pawn.tree import DeadEnd
from redqueen.sandbox.literals import canonical, parse_literal

_WEIGHTS = {"value": 78, "test": 13, "answer": 4, "turns": 3, "change": 2}
"""How often each mistake is made, where there is an occasion for it."""
_MOST_LINES = 120
"""Of an attempt: a mistake may make a loop endless."""
_TRIES = 6
_OFF_BY = (-10, -6, -4, -3, -2, -2, -1, -1, -1, 1, 1, 1, 2, 2, 3, 4, 6, 10)

Coin = Callable[[], bool]
Attempt = tuple[list[str], str]
"""The lines of a reasoning, and an answer."""


def mistaken_attempt(
    program: str, arguments: str, is_careful: Coin, rng: Random, only: str = ""
) -> Attempt | None:
    """An attempt with one mistake, on demand of one sort only; None where there is no occasion for
    it, or what follows from it has no end."""
    true = _Mistaken(lambda: False, rng)
    true.play(program, arguments)
    sorts = [sort for sort in _WEIGHTS if sort in true.occasions and only in ("", sort)]
    if not sorts:
        return None
    (sort,) = rng.choices(sorts, [_WEIGHTS[sort] for sort in sorts])
    places = [place for place, other in enumerate(true.occasions) if other == sort]
    run = _Mistaken(is_careful, rng, rng.choice(places))
    try:
        run.play(program, arguments)
    except (DeadEnd, TypeError, AttributeError, *RAISED):
        return None
    return (run.lines, run.output) if run.output else None


class _Mistaken(CarefulRun):
    """A run with a mistake at one of its occasions; by default with none."""

    def __init__(self, is_careful: Coin, rng: Random, at: int = -1) -> None:
        super().__init__(is_careful)
        self.rng, self.at = rng, at
        self.occasions: list[str] = []
        self.output = ""
        self.slips = False

    def errs(self, which: str) -> bool:
        self.occasions.append(which)
        return len(self.occasions) - 1 == self.at

    def holds(self, test: ast.expr) -> bool:
        return super().holds(test) != self.errs("test")

    def turns(self, over: ast.expr) -> Iterable[Any]:
        found = list(super().turns(over))
        return found[:-1] if self.errs("turns") else found

    def change(self, statement: ast.stmt) -> None:
        """What sets a variable anew cannot be forgotten; a constant is not mistaken."""
        match statement:
            case ast.Assign(value=ast.Constant() | ast.Name() | ast.List(elts=[])):
                super().change(statement)
            case ast.Assign(targets=[ast.Name()]):
                self.slip(statement)
            case _ if not self.errs("change"):
                self.slip(statement)

    def slip(self, statement: ast.stmt) -> None:
        self.slips = self.errs("value")
        super().change(statement)
        self.slips = False

    def mistake(self, value: Any) -> Any:
        other = near_value(value, self.rng)
        if other == value:  # two equal letters have changed places
            raise DeadEnd
        return other

    def note(self, name: str) -> None:
        if self.slips:
            self.variables[name] = self.mistake(self.variables[name])
        super().note(name)
        if len(self.lines) > _MOST_LINES:
            raise DeadEnd

    def answer(self, returned: ast.expr) -> None:
        super().answer(returned)
        value = self.evaluate(returned)
        if not isinstance(returned, ast.Name) and self.errs("answer"):
            value = self.mistake(value)
        self.output = write_bounded(value)


def near_output(program: Program, number: int, rng: Random) -> str:
    """A wrong output that looks right: the right one with a part of it changed, or the output for
    another input. Never the right one."""
    gold = program.outputs[number]
    for _ in range(_TRIES):
        if rng.random() < 0.3:
            other = rng.choice(program.outputs)
        else:
            try:
                other = canonical(near_value(parse_literal(gold), rng))
            except DeadEnd:
                continue
        if other != gold:
            return other
    return next(other for other in program.outputs if other != gold)


def near_value(value: Any, rng: Random) -> Any:
    """Another value of the same type; raises DeadEnd where none is near."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice(_OFF_BY)
    if isinstance(value, str):
        return "".join(_near_items(list(value), rng, lambda letter: rng.choice(LETTERS)))
    if isinstance(value, tuple):  # of a fixed length
        return tuple(_change_one(list(value), rng))
    if isinstance(value, list):
        return _near_items(value, rng, lambda item: near_value(item, rng))
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        return {**value, key: near_value(value[key], rng)}
    raise DeadEnd


def _change_one(items: list[Any], rng: Random) -> list[Any]:
    place = rng.randrange(len(items))
    return [*items[:place], near_value(items[place], rng), *items[place + 1 :]]


def _near_items(items: list[Any], rng: Random, change: Any) -> list[Any]:
    """One item is changed, left out, repeated, or changes places with the next."""
    if not items:
        raise DeadEnd
    place, way = rng.randrange(len(items)), rng.random()
    before, item, after = items[:place], items[place], items[place + 1 :]
    if way < 0.4:
        return [*before, change(item), *after]
    if way < 0.6:
        return [*before, *after]
    if way < 0.8 or not after:
        return [*before, item, item, *after]
    return [*before, after[0], item, *after[1:]]
