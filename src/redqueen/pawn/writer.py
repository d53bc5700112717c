"""Writes random functions by the grammar: typed, seeded, ended by construction.

A function is written forwards, statement by statement, each drawing on the variables there are, and run as it is written, so that a
statement that is not fit is replaced at once and not found out at the end. What the returned value does not need is dropped later.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import TypeVar

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
from redqueen.pawn.tree import Branch, Expr, Jump, Line, Loop, NoWay, Return, Statement, needed, walk

T = TypeVar("T")

_ARGUMENT_TYPES = (INT,) * 6 + (STR,) * 6 + (INTS,) * 8 + (STRS,) * 3 + (PAIR,) * 2 + (COUNTS,) * 1
_ACCUMULATORS = (INT,) * 4 + (STR,) * 2 + (INTS,) * 3 + (STRS,) + (COUNTS,) * 2
_EMPTY = {INT: "0", STR: "''", INTS: "[]", STRS: "[]", COUNTS: "{}"}
_CONSTANTS = {"C": (1, 9), "F": (2, 4), "M": (2, 9), "R": (0, 1), "S": (1, 3)}


_RETRIES = 8
_SCOUTS = 5
"""Inputs a function is run on while it is written; the others follow when it is done."""


@cache
def _usable(changes: bool, kind: str, tier: int, types: frozenset[str]) -> tuple[Template, ...]:
    """The templates for this tier that can be filled from variables of these types; ints, texts and tests can be made of nothing."""
    return tuple(
        template
        for template in (CHANGES if changes else EXPRESSIONS)[kind]
        if template.tier <= tier
        and all(need in types or need in (INT, STR, BOOL) for need in template.needs)
        and (not template.needs or any(need in types for need in template.needs))
    )


def varied(values: Sequence[object]) -> bool:
    """Whether the commonest value is at most half of them."""
    return Counter(values).most_common(1)[0][1] * 2 <= len(values)


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
        self.inputs = [{name: self.value(kind) for name, kind in self.scope.items()} for _ in range(inputs)]
        self.runs = [Run(dict(values), []) for values in self.inputs[:_SCOUTS]]

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
        kept, _ = needed([*body, ending])
        if len(walk(kept)) - 1 < self.tier.statements[0]:
            raise NoWay
        self.kept = kept
        return [ending]

    def fit(self, write: Callable[[], list[Statement]]) -> list[Statement]:
        """What is written, once it is fit; draws that led nowhere leave no mark."""
        state = dict(self.scope), list(self.fresh), set(self.taken), self.blocks
        for _ in range(_RETRIES):
            try:
                statements = write()
                runs = run_further(self.runs, statements, self.tier.trace[1])
                if not self.tells_apart(statements[-1], runs):
                    raise NoWay
            except NoWay:
                scope, fresh, taken, self.blocks = state
                self.scope, self.fresh, self.taken, self.fixed = dict(scope), list(fresh), set(taken), set()
            else:
                self.runs = runs
                return statements
        raise NoWay

    def tells_apart(self, last: Statement, runs: Sequence[Run]) -> bool:
        """Whether the inputs still matter after this statement: a returned value varies, a variable is not the same everywhere."""
        if isinstance(last, Return):
            return varied([run.output for run in runs])
        going_on = [run for run in runs if run.output is None]
        targets = {part.target for part in walk([last]) if isinstance(part, Line)}
        different = {repr([run.variables.get(name) for name in targets]) for run in going_on}
        return len(going_on) * 2 >= len(runs) and (not targets or len(different) > 1)

    def value(self, kind: str) -> object:
        """An input of this type."""
        longest, largest = self.tier.longest, self.tier.largest
        if kind == INT:
            return self.between(0, largest)
        if kind == STR:
            return self.letters(2, longest)
        if kind == INTS:
            return [self.between(0, largest // 2) for _ in range(self.between(2, longest))]
        if kind == STRS:
            return [self.letters(1, 3) for _ in range(self.between(2, longest - 1))]
        if kind == PAIR:
            return (self.between(0, largest), self.between(0, largest))
        assert kind == COUNTS
        keys = sorted({self.pick(LETTERS) for _ in range(self.between(1, 3))})  # in the order in which it will be written down
        return {key: self.between(0, 9) for key in keys}

    def letters(self, low: int, high: int) -> str:
        return "".join([self.pick(LETTERS) for _ in range(self.between(low, high))])

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
        return Line(name, f"{name} = {value.text}", value.uses, value.words)

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
        return Line(name, value.text, value.uses, value.words, changes=True)

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
        return [*before, Loop(head, over.uses, ("for", *over.words), tuple(targets), body)]

    def while_loop(self, room: int, nesting: int) -> list[Statement]:
        counters = [name for name, kind in self.scope.items() if kind == INT and name not in self.fixed]
        if not counters:
            raise NoWay
        counter = self.pick(counters)
        before, accumulators = self.accumulators(nesting)
        body = self.loop_body({}, frozenset([counter]), accumulators, room - 2 - len(before), nesting)
        step = f"{counter} //= {self.between(2, 3)}" if self.chance(0.5) else f"{counter} -= {self.between(3, 9)}"
        body.append(Line(counter, step, frozenset(), ("shrink",), changes=True))
        return [*before, Loop(f"while {counter} > {self.between(0, 5)}:", frozenset([counter]), ("while",), (), body)]

    def accumulators(self, nesting: int) -> tuple[list[Statement], list[str]]:
        """The variables that a loop builds up: new and empty ones, or ones that are there."""
        there = [name for name, kind in self.scope.items() if kind in _EMPTY and name not in self.fixed]
        if there and self.chance(0.8 if nesting else 0.3):
            return [], [self.pick(there)]
        kind = self.pick(_ACCUMULATORS)
        name = self.name(kind, LOCAL_NAMES)
        return [Line(name, f"{name} = {_EMPTY[kind]}", frozenset(), ())], [name]

    def iteration(self) -> tuple[str, dict[str, str], Expr]:
        """The head of a for loop, the variables it sets with their types, and what it goes over."""
        choice = self.random()
        if choice < 0.2:
            name = self.name(INT, LOOP_NAMES, scoped=False)
            if self.chance(0.5) and (length := self.variable(INTS) or self.variable(STR)):
                return f"for {name} in range(len({length.text})):", {name: INT}, Expr("", length.uses, ("range", "len"))
            return f"for {name} in range({self.between(2, 4)}):", {name: INT}, Expr("", frozenset(), ("range",))
        kind = self.pick([kind for kind in (INTS, INTS, STR, STRS, COUNTS) if kind in self.scope.values()] or [None])
        if kind is None:
            raise NoWay
        over = self.expr(kind, 1) if kind != COUNTS and self.number >= 5 and self.chance(0.2) else self.variable(kind)
        if over is None or not over.uses or not over.simple:
            raise NoWay
        if kind == COUNTS:
            key, value = self.name(STR, LOOP_NAMES, scoped=False), self.name(INT, LOOP_NAMES, scoped=False)
            return f"for {key}, {value} in {over.text}.items():", {key: STR, value: INT}, Expr("", over.uses, (*over.words, "items"))
        item_kind = INT if kind == INTS else STR
        item = self.name(item_kind, LOOP_NAMES, scoped=False)
        if self.number >= 4 and self.chance(0.2):
            index = self.name(INT, LOOP_NAMES, scoped=False)
            return f"for {index}, {item} in enumerate({over.text}):", {index: INT, item: item_kind}, Expr("", over.uses, (*over.words, "enumerate"))
        return f"for {item} in {over.text}:", {item: item_kind}, over

    def loop_body(self, targets: dict[str, str], over: frozenset[str], accumulators: list[str], room: int, nesting: int) -> list[Statement]:
        scope, fixed = dict(self.scope), set(self.fixed)
        self.scope.update(targets)
        self.fixed |= set(targets) | over
        self.fresh = [name for name in self.fresh if name not in accumulators] + list(targets) * 2
        body: list[Statement] = []
        if self.number >= 5 and room >= 3 and self.chance(0.15):
            # no `continue` in a while loop: it would pass over the line that brings the loop to its end
            body.append(Branch(self.test(), [Jump(self.pick(("break", "continue")) if targets else "break")]))
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
            return Return(Expr(f"({text})" if self.chance(0.5) else f"[{text}]", frozenset(names), ("both",)))
        if made and self.chance(0.3):
            name = self.pick(made)
            return Return(Expr(name, frozenset([name])))
        kind = self.scope[self.pick(made or self.fresh or list(self.scope))]
        value = self.expr(kind if self.chance(0.5) else self.pick(TYPES), 2 if self.number == 1 and self.chance(0.4) else 1)
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
            return Expr(str(self.between(1, 9)), frozenset())
        if kind == STR:
            return Expr(f"'{self.pick(LETTERS)}{self.pick(LETTERS)}'", frozenset())
        if kind == BOOL:
            return self.fill(self.choose(BOOL), 0)
        raise NoWay

    def fill(self, template: Template, depth: int, name: str = "") -> Expr:
        text, uses, first = "", frozenset[str](), ""
        words: tuple[str, ...] = (template.word,)
        deep = self.below(len(template.needs)) if template.needs else 0
        slot = 0
        for part, value in template.parts:
            if part == "text":
                text += value
            elif part == "constant":
                text += f"'{self.pick(LETTERS)}'" if value == "L" else str(self.between(*_CONSTANTS[value]))
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
                first = first or inner.text
                uses |= inner.uses
                words += inner.words
        if template.needs and not uses and not name:
            raise NoWay  # made of constants alone
        return Expr(text, uses, words, template.simple)

    def variable(self, kind: str) -> Expr | None:
        """A variable of this type, rather one that nothing has used yet."""
        fresh = [name for name in self.fresh if self.scope.get(name) == kind]
        found = fresh if fresh and self.chance(0.85) else [name for name, type_ in self.scope.items() if type_ == kind]
        if not found:
            return None
        name = self.pick(found)
        if name in self.fresh:
            self.fresh.remove(name)
        return Expr(name, frozenset([name]))

    def choose(self, kind: str, changes: bool = False) -> Template:
        """A template whose types are at hand."""
        usable = _usable(changes, kind, self.number, frozenset(self.scope.values()))
        if not usable:
            raise NoWay
        return self.pick(usable)

    # names and draws

    def name(self, kind: str, names: dict[str, str], scoped: bool = True) -> str:
        free = [name for name in names[kind].split() if name not in self.taken]
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
