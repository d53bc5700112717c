"""Writes random functions by the grammar: typed, seeded, ended by construction.

A function is written forwards, statement by statement, each drawing on the variables there are, and
run as it is written, so that a statement that is not fit is replaced at once and not found out at
the end. What the returned value does not need is dropped later.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from random import Random
from typing import Any, TypeVar

from redqueen.pawn.grammar import (
    ARGUMENT_NAMES,
    BOOL,
    CHANGES,
    COUNTS,
    EXPRESSIONS,
    INT,
    INTS,
    LETTERS,
    LOCAL_NAMES,
    LOOP_NAMES,
    PAIR,
    STR,
    STRS,
    TIERS,
    TYPES,
    Template,
)
from redqueen.pawn.runs import Run, run_further
from redqueen.pawn.tree import (
    Action,
    Branch,
    Expr,
    Jump,
    Line,
    Loop,
    NoWay,
    Return,
    Statement,
    Variables,
    needed,
    walk,
)

T = TypeVar("T")

_ARGUMENT_TYPES = (INT,) * 6 + (STR,) * 6 + (INTS,) * 8 + (STRS,) * 3 + (PAIR,) * 2 + (COUNTS,) * 1
_ACCUMULATORS = (INT,) * 4 + (STR,) * 2 + (INTS,) * 3 + (STRS,) + (COUNTS,) * 2
_NONE: frozenset[str] = frozenset()
_EMPTY: dict[str, Callable[[], object]] = {INT: int, STR: str, INTS: list, STRS: list, COUNTS: dict}
_CONSTANTS = {"C": (1, 9), "F": (2, 4), "M": (2, 9), "R": (0, 1), "S": (1, 3)}


_RETRIES = 8
_SCOUTS = 5
"""Inputs a function is run on while it is written; the others follow when it is done."""


@cache
def _usable(changes: bool, kind: str, tier: int, types: frozenset[str]) -> tuple[Template, ...]:
    """The templates for this tier that can be filled from variables of these types; ints, texts and
    tests can be made of nothing."""
    return tuple(
        template
        for template in (CHANGES if changes else EXPRESSIONS)[kind]
        if template.tier <= tier
        and all(need in types or need in (INT, STR, BOOL) for need in template.needs)
        and (not template.needs or any(need in types for need in template.needs))
    )


@cache
def _variable(name: str) -> Expr:
    return Expr(name, itemgetter(name), frozenset([name]))


@cache
def _constant(value: int | str) -> Expr:
    return Expr(repr(value), lambda variables: value, _NONE)


def _then(value: Action, function: Callable[[Any], object]) -> Action:
    return lambda variables: function(value(variables))


def _setting(name: str, value: Action) -> Action:
    def run(variables: Variables) -> None:
        variables[name] = value(variables)

    return run


def varied(values: Sequence[object]) -> bool:
    """Whether the commonest value is at most half of them."""
    return max(map(values.count, values)) * 2 <= len(values)


class Writer:
    """Writes one function: the variables it has so far, its runs, and the draws."""

    def __init__(self, draw: Random, tier: int, inputs: int) -> None:
        self.random = draw.random
        self.number, self.tier = tier, TIERS[tier]
        self.scope: dict[str, str] = {}
        """Variables that are set on every path to here, with their types."""
        self.fresh: list[str] = []
        """Variables that nothing has used since they were set: they are drawn first."""
        self.fixed: set[str] = set()
        """Variables that must not be changed now: a loop depends on them."""
        self.taken: set[str] = set()
        self.blocks = self.tier.blocks
        for _ in range(self.between(1, self.tier.arguments)):
            self.name(self.pick(_ARGUMENT_TYPES), ARGUMENT_NAMES)
        self.arguments = list(self.scope)
        self.raw = set(self.scope)
        """Arguments as they came in: to return one alone would be no work."""
        self.inputs = [
            {name: self.value(kind) for name, kind in self.scope.items()} for _ in range(inputs)
        ]
        self.runs = [Run(values, []) for values in self.inputs[:_SCOUTS]]

    def body(self) -> list[Statement]:
        """A body without statements that its value does not need."""
        goal = self.between(*self.tier.statements)
        body: list[Statement] = []
        while (size := len(walk(body))) < goal:
            body += self.fit(lambda room=goal - size: self.statement(room, 0))  # type: ignore[misc]
        self.fit(lambda: self.ending(body))
        return self.kept

    def ending(self, body: list[Statement]) -> list[Statement]:
        """A return that makes use of most that is there."""
        ending = self.the_return()
        kept, _ = needed(body, ending.value.uses)
        size = len(walk(kept))
        if size < self.tier.statements[0]:
            raise NoWay
        self.kept, self.whole = [*kept, ending], size == len(walk(body))
        return [ending]

    def finished(self) -> list[Run]:
        """The runs of what is kept, on every input; those that there are hold good where nothing
        was dropped."""
        most_steps = self.tier.trace[1]
        if not self.whole:
            return run_further([Run(values, []) for values in self.inputs], self.kept, most_steps)
        others = [Run(values, []) for values in self.inputs[_SCOUTS:]]
        return self.runs + run_further(others, self.kept, most_steps, proven=True)

    def fit(self, write: Callable[[], list[Statement]]) -> list[Statement]:
        """What is written, once it is fit; draws that led nowhere leave no mark."""
        scope, fresh, taken, blocks = (
            self.scope.copy(),
            self.fresh.copy(),
            self.taken.copy(),
            self.blocks,
        )
        for _ in range(_RETRIES):
            try:
                statements = write()
                runs = run_further(self.runs, statements, self.tier.trace[1])
                if not self.tells_apart(statements[-1], runs):
                    raise NoWay
            except NoWay:
                self.scope, self.fresh, self.taken, self.blocks, self.fixed = (
                    scope.copy(),
                    fresh.copy(),
                    taken.copy(),
                    blocks,
                    set(),
                )
            else:
                self.runs = runs
                return statements
        raise NoWay

    def tells_apart(self, last: Statement, runs: Sequence[Run]) -> bool:
        """Whether the inputs still matter after this statement: a returned value varies, a variable
        is not the same everywhere."""
        if isinstance(last, Return):
            return varied([run.output for run in runs])
        going_on = [run for run in runs if run.output is None]
        if len(going_on) * 2 < len(runs):
            return False
        first, *others = going_on
        targets = [part.target for part in walk([last]) if type(part) is Line]
        return not targets or any(
            repr(run.variables.get(name)) != repr(first.variables.get(name))
            for name in targets
            for run in others
        )

    def value(self, kind: str) -> object:
        """An input of this type."""
        longest, largest = self.tier.longest, self.tier.largest
        if kind == INT:
            return self.between(0, largest)
        if kind == STR:
            return self.letters(2, longest)
        if kind == INTS:
            return self.ints(2, longest)
        if kind == STRS:
            return [self.letters(1, 3) for _ in range(self.between(2, longest - 1))]
        if kind == PAIR:
            return (self.between(0, largest), self.between(0, largest))
        assert kind == COUNTS
        keys = sorted(
            {self.pick(LETTERS) for _ in range(self.between(1, 3))}
        )  # in the order in which it will be written down
        return {key: self.between(0, 9) for key in keys}

    def ints(self, low: int, high: int) -> list[int]:
        random, count = (
            self.random,
            self.tier.largest // 2 + 1,
        )  # as `between` draws, without a call for each
        return [int(random() * count) for _ in range(self.between(low, high))]

    def letters(self, low: int, high: int) -> str:
        random, count = self.random, len(LETTERS)  # as `pick` draws
        return "".join([LETTERS[int(random() * count)] for _ in range(self.between(low, high))])

    # statements

    def statement(self, room: int, nesting: int) -> list[Statement]:
        """One statement, with what must stand before it."""
        if self.blocks > 0 and room >= 2 and nesting < self.tier.nesting and self.chance(0.6):
            self.blocks -= 1
            return self.block(room, nesting)
        changeable = [name for name in self.scope if name not in self.fixed]
        if changeable and self.chance(0.75 if nesting else 0.25):
            return [self.change(self.pick(changeable))]
        return [self.assignment()]

    def assignment(self) -> Line:
        kind = self.pick(TYPES)
        value = self.expr(kind, self.tier.depth)
        if not value.words or not value.uses:
            raise NoWay
        name = self.name(kind, LOCAL_NAMES)
        return Line(
            name, f"{name} = {value.text}", _setting(name, value.value), value.uses, value.words
        )

    def change(self, name: str) -> Line:
        kind = self.scope[name]
        template = self.choose(kind, changes=True)
        hidden = self.scope.pop(name)  # not on its own right side: `a += a`
        try:
            value = self.fill(template, self.tier.depth - 1, name)
        finally:
            self.scope[name] = hidden
        self.renew(name)
        self.raw.discard(name)
        return Line(name, value.text, value.value, value.uses, value.words, changes=True)

    def block(self, room: int, nesting: int) -> list[Statement]:
        choice = self.random()
        if choice < 0.3 or self.number == 2:
            return [self.branch(room, nesting)]
        if choice < 0.4 and nesting == 0 and self.number >= 3:
            return [Branch(self.test(), [self.the_return()])]
        if choice < 0.5 and self.number >= 4:
            return self.while_loop(room, nesting)
        return self.for_loop(room, nesting)

    def test(self) -> Expr:
        test = self.expr(BOOL, 2 if self.number >= 5 else 1)
        if not test.uses:
            raise NoWay
        return test

    def branch(self, room: int, nesting: int) -> Branch:
        test = self.test()
        changeable = [name for name in self.scope if name not in self.fixed]
        if not changeable:
            raise NoWay
        name = self.pick(changeable)
        scope, fresh = dict(self.scope), list(self.fresh)
        body: list[Statement] = [self.change(name)]
        if room >= 4 and self.chance(0.3):
            body += self.statement(1, nesting + 1)
        self.scope, self.fresh = dict(scope), list(fresh)
        orelse: list[Statement] = [self.change(name)] if self.chance(0.5) else []
        self.scope, self.fresh = scope, fresh
        self.renew(name)
        return Branch(test, body, orelse)

    def for_loop(self, room: int, nesting: int) -> list[Statement]:
        before, accumulators = self.accumulators(nesting)
        head, targets, over = self.iteration()
        body = self.loop_body(targets, over.uses, accumulators, room - 1 - len(before), nesting)
        return [
            *before,
            Loop(head, over.value, over.uses, ("for", *over.words), tuple(targets), body),
        ]

    def while_loop(self, room: int, nesting: int) -> list[Statement]:
        counters = [
            name for name, kind in self.scope.items() if kind == INT and name not in self.fixed
        ]
        if not counters:
            raise NoWay
        counter = self.pick(counters)
        before, accumulators = self.accumulators(nesting)
        body = self.loop_body(
            {}, frozenset([counter]), accumulators, room - 2 - len(before), nesting
        )
        body.append(self.shrink(counter))
        least = self.between(0, 5)

        def turns(variables: Variables) -> Iterator[tuple[()]]:
            while variables[counter] > least:
                yield ()

        return [
            *before,
            Loop(f"while {counter} > {least}:", turns, frozenset([counter]), ("while",), (), body),
        ]

    def shrink(self, counter: str) -> Line:
        """The line that brings a while loop to its end."""
        sign, by = ("//", self.between(2, 3)) if self.chance(0.5) else ("-", self.between(3, 9))
        smaller = _then(
            itemgetter(counter), lambda value: value // by if sign == "//" else value - by
        )
        return Line(
            counter,
            f"{counter} {sign}= {by}",
            _setting(counter, smaller),
            _NONE,
            ("shrink",),
            changes=True,
        )

    def accumulators(self, nesting: int) -> tuple[list[Statement], list[str]]:
        """The variables that a loop builds up: new and empty ones, or ones that are there."""
        there = [
            name for name, kind in self.scope.items() if kind in _EMPTY and name not in self.fixed
        ]
        if there and self.chance(0.8 if nesting else 0.3):
            return [], [self.pick(there)]
        kind = self.pick(_ACCUMULATORS)
        name = self.name(kind, LOCAL_NAMES)
        empty = _EMPTY[kind]
        return [
            Line(
                name, f"{name} = {empty()!r}", _setting(name, lambda variables: empty()), _NONE, ()
            )
        ], [name]

    def iteration(self) -> tuple[str, dict[str, str], Expr]:
        """The head of a for loop, the variables it sets with their types, and what it goes over:
        its value has a tuple for each turn."""
        choice = self.random()
        if choice < 0.2:
            name = self.name(INT, LOOP_NAMES, scoped=False)
            if self.chance(0.5) and (length := self.variable(INTS) or self.variable(STR)):
                turns = Expr(
                    "",
                    _then(length.value, lambda value: zip(range(len(value)))),
                    length.uses,
                    ("range", "len"),
                )
                return f"for {name} in range(len({length.text})):", {name: INT}, turns
            count = self.between(2, 4)
            return (
                f"for {name} in range({count}):",
                {name: INT},
                Expr("", lambda variables: zip(range(count)), _NONE, ("range",)),
            )
        kind = self.pick(
            [kind for kind in (INTS, INTS, STR, STRS, COUNTS) if kind in self.scope.values()]
            or [None]
        )
        if kind is None:
            raise NoWay
        over = (
            self.expr(kind, 1)
            if kind != COUNTS and self.number >= 5 and self.chance(0.2)
            else self.variable(kind)
        )
        if over is None or not over.uses or not over.simple:
            raise NoWay
        if kind == COUNTS:
            key, value = (
                self.name(STR, LOOP_NAMES, scoped=False),
                self.name(INT, LOOP_NAMES, scoped=False),
            )
            turns = Expr("", _then(over.value, dict.items), over.uses, (*over.words, "items"))
            return f"for {key}, {value} in {over.text}.items():", {key: STR, value: INT}, turns
        item_kind = INT if kind == INTS else STR
        item = self.name(item_kind, LOOP_NAMES, scoped=False)
        if self.number >= 4 and self.chance(0.2):
            index = self.name(INT, LOOP_NAMES, scoped=False)
            turns = Expr("", _then(over.value, enumerate), over.uses, (*over.words, "enumerate"))
            return (
                f"for {index}, {item} in enumerate({over.text}):",
                {index: INT, item: item_kind},
                turns,
            )
        return (
            f"for {item} in {over.text}:",
            {item: item_kind},
            Expr("", _then(over.value, zip), over.uses, over.words),
        )

    def loop_body(
        self,
        targets: dict[str, str],
        over: frozenset[str],
        accumulators: list[str],
        room: int,
        nesting: int,
    ) -> list[Statement]:
        scope, fixed = dict(self.scope), set(self.fixed)
        self.scope.update(targets)
        self.fixed |= set(targets) | over
        self.fresh = [name for name in self.fresh if name not in accumulators] + list(targets) * 2
        body: list[Statement] = []
        if self.number >= 5 and room >= 3 and self.chance(0.15):
            # no `continue` in a while loop: it would pass over the line that brings the loop to its
            # end
            body.append(
                Branch(
                    self.test(), [Jump(self.pick(("break", "continue")) if targets else "break")]
                )
            )
        if self.blocks > 0 and room >= 3 and nesting + 1 < self.tier.nesting and self.chance(0.4):
            self.blocks -= 1
            body += self.for_loop(room - 1, nesting + 1)
        for name in accumulators:
            if name in self.fixed:
                raise NoWay
            if self.number >= 4 and self.chance(0.4):
                test = self.test()
                orelse: list[Statement] = [self.change(name)] if self.chance(0.3) else []
                body.append(Branch(test, [self.change(name)], orelse))
            else:
                body.append(self.change(name))
        while len(walk(body)) < min(room, 3) and self.chance(0.5):
            body += self.statement(1, nesting + 1)
        self.scope = {name: kind for name, kind in self.scope.items() if name in scope}
        self.fresh = [name for name in self.fresh if name in scope]
        self.fixed = fixed
        for name in accumulators:
            self.renew(name)
        return body

    def the_return(self) -> Return:
        made = [name for name in self.fresh if name in self.scope and name not in self.raw]
        if len(made) > 1 and self.number >= 3 and self.chance(0.8):
            names = made[-3:] if self.number >= 6 else made[-2:]
            text = ", ".join(names)
            values = itemgetter(*names)
            if self.chance(0.5):
                return Return(Expr(f"({text})", values, frozenset(names), ("both",)))
            return Return(Expr(f"[{text}]", _then(values, list), frozenset(names), ("both",)))
        if made and self.chance(0.3):
            return Return(_variable(self.pick(made)))
        kind = self.scope[self.pick(made or self.fresh or list(self.scope))]
        value = self.expr(
            kind if self.chance(0.5) else self.pick(TYPES),
            2 if self.number == 1 and self.chance(0.4) else 1,
        )
        if not value.uses:
            raise NoWay
        return Return(value)

    # expressions

    def expr(self, kind: str, depth: int) -> Expr:
        if depth > 0:
            return self.fill(self.choose(kind), depth - 1)
        found = None if kind == INT and self.chance(0.1) else self.variable(kind)
        if found is not None:
            return found
        if kind == INT:
            return _constant(self.between(1, 9))
        if kind == STR:
            return _constant(self.pick(LETTERS) + self.pick(LETTERS))
        if kind == BOOL:
            return self.fill(self.choose(BOOL), 0)
        raise NoWay

    def fill(self, template: Template, depth: int, name: str = "") -> Expr:
        text, first, uses = "", "", _NONE
        words: tuple[str, ...] = (template.word,)
        deep = self.below(len(template.needs)) if template.needs else 0
        slot = 0
        slots: list[Action | int | str] = []
        for part, value in template.parts:
            if part == "text":
                text += value
            elif part == "constant":
                constant = self.pick(LETTERS) if value == "L" else self.between(*_CONSTANTS[value])
                text += repr(constant)
                slots.append(constant)
            elif part == "variable":
                text += name
            elif part == "same":
                text += first
            else:
                inner = self.expr(value, depth if slot == deep and self.chance(0.8) else 0)
                slot += 1
                if inner.text == first:
                    raise NoWay  # `max(a, a)`, `n - n`
                written = inner.text if inner.simple or part == "open" else f"({inner.text})"
                text += written
                slots.append(inner.value)
                first = first or inner.text
                uses |= inner.uses
                words += inner.words
        if template.needs and not uses and not name:
            raise NoWay  # made of constants alone
        return Expr(text, template.action(name, *slots), uses, words, template.simple)

    def variable(self, kind: str) -> Expr | None:
        """A variable of this type, rather one that nothing has used yet."""
        fresh = [name for name in self.fresh if self.scope.get(name) == kind]
        found = (
            fresh
            if fresh and self.chance(0.85)
            else [name for name, type_ in self.scope.items() if type_ == kind]
        )
        if not found:
            return None
        name = self.pick(found)
        if name in self.fresh:
            self.fresh.remove(name)
        return _variable(name)

    def choose(self, kind: str, changes: bool = False) -> Template:
        """A template whose types are at hand."""
        usable = _usable(changes, kind, self.number, frozenset(self.scope.values()))
        if not usable:
            raise NoWay
        return self.pick(usable)

    # names and draws

    def name(self, kind: str, names: dict[str, list[str]], scoped: bool = True) -> str:
        free = [name for name in names[kind] if name not in self.taken]
        if not free:
            raise NoWay
        name = free[0] if self.chance(0.5) else self.pick(free)
        self.taken.add(name)
        if scoped:
            self.scope[name] = kind
            self.renew(name)
        return name

    def renew(self, name: str) -> None:
        if name not in self.fresh:
            self.fresh.append(name)

    def below(self, count: int) -> int:
        return int(self.random() * count)

    def between(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))

    def chance(self, share: float) -> bool:
        return self.random() < share

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]
