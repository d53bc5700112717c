"""Runs of a program with one mistake in them, followed through to the answer, as a solver makes
them: a wrong value at one step, a change that is forgotten, a test that is read the other way
round, a loop that ends one turn early."""

from collections.abc import Sequence
from random import Random
from typing import Any

from redqueen.pawn.grammar import LETTERS, TIERS
from redqueen.pawn.programs import Program
from redqueen.pawn.runs import RAISED, Observer, Run
from redqueen.pawn.tree import Branch, DeadEnd, Line, Loop, Statement, walk
from redqueen.sandbox.literals import canonical, parse_literal

_SLIPS = 0.6
"""Share of mistakes that are a wrong value at one step."""
_TRIES = 6


def run_with_mistake(program: Program, number: int, rng: Random) -> Run | None:
    """The run on one of the inputs with one mistake; None where there is nothing to mistake, or
    what follows from it has no end."""
    steps, max_steps = len(program.traces[number]), TIERS[program.tier].trace[1]
    try:
        if steps and rng.random() < _SLIPS:
            observer: Observer = _Slip(program.body, max_steps, rng.randrange(steps), rng)
        else:
            observer = Observer(_misread(program.body, rng), max_steps)
        observer.waiting.clear()
        run = observer.run(Run(program.starts[number], []))
    except (DeadEnd, *RAISED):
        return None
    return run if run.output is not None else None


class _Slip(Observer):
    """One step sets its variable to a wrong value."""

    def __init__(
        self, statements: Sequence[Statement], max_steps: int, at: int, rng: Random
    ) -> None:
        super().__init__(statements, max_steps)
        self.at, self.rng = at, rng

    def note(self, step: object, name: str, value: object) -> None:
        if len(self.trace) == self.at:
            value = self.variables[name] = near_value(value, self.rng)
        super().note(step, name, value)


def _misread(body: Sequence[Statement], rng: Random) -> list[Statement]:
    """The body with one statement read wrongly."""
    mistaken = [part for part in walk(body) if _can_be_misread(part)]
    if not mistaken:
        raise DeadEnd
    part = rng.choice(mistaken)
    other: list[Statement] = []
    if isinstance(part, Branch):
        test = part.test.value
        other = [part._replace(test=part.test._replace(value=lambda v: not test(v)))]
    elif isinstance(part, Loop):
        turns = part.turns
        other = [part._replace(turns=lambda v: list(turns(v))[:-1])]
    return _replace(body, part, other)


def _can_be_misread(part: Statement) -> bool:
    """Not what a while loop counts down by, without which it would not end."""
    if isinstance(part, Line):
        return part.changes and part.words != ("shrink",)
    return isinstance(part, Branch) or (isinstance(part, Loop) and bool(part.targets))


def _replace(
    body: Sequence[Statement], old: Statement, new: Sequence[Statement]
) -> list[Statement]:
    changed: list[Statement] = []
    for part in body:
        if part is old:
            changed += new
        elif isinstance(part, Branch):
            inner = _replace(part.body, old, new), _replace(part.orelse, old, new)
            changed.append(part._replace(body=inner[0], orelse=inner[1]))
        elif isinstance(part, Loop):
            changed.append(part._replace(body=_replace(part.body, old, new)))
        else:
            changed.append(part)
    return changed


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
        return value + rng.choice((-10, -2, -1, -1, -1, 1, 1, 1, 2, 10))
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
