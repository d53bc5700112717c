"""Heads of loops: what a loop goes over, what it accumulates, how it ends."""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import NamedTuple

from redqueen.pawn.choices import Choices
from redqueen.pawn.expressions import NONE, Expressions, then, variable
from redqueen.pawn.grammar import COUNTS, INT, INTS, LOCAL_NAMES, LOOP_NAMES, STR, STRS
from redqueen.pawn.scope import Scope
from redqueen.pawn.tree import Action, DeadEnd, Expr, Line, Statement, Variables

_ACCUMULATORS = (INT,) * 4 + (STR,) * 2 + (INTS,) * 3 + (STRS,) + (COUNTS,) * 2
_EMPTY: dict[str, Callable[[], object]] = {INT: int, STR: str, INTS: list, STRS: list, COUNTS: dict}


class Head(NamedTuple):
    """The head of a for loop."""

    text: str
    targets: dict[str, str]
    """The variables it sets, with their types."""
    turns: Action
    """A tuple of values for each turn."""
    uses: frozenset[str]
    words: tuple[str, ...]


def assign(name: str, value: Action) -> Action:
    def run(variables: Variables) -> None:
        variables[name] = value(variables)

    return run


class Loops:
    def __init__(self, choices: Choices, scope: Scope, expressions: Expressions, tier: int) -> None:
        self.choices, self.scope, self.expressions, self.tier = choices, scope, expressions, tier

    def sample_accumulator(self, nesting: int) -> tuple[list[Statement], str]:
        """The variable that a loop builds up, and the line that creates it if it is new."""
        types = self.scope.types
        existing = [name for name in self.scope.changeable() if types[name] in _EMPTY]
        if existing and self.choices.flip(0.8 if nesting else 0.3):
            return [], self.choices.pick(existing)
        kind = self.choices.pick(_ACCUMULATORS)
        name = self.scope.add(kind, LOCAL_NAMES)
        empty = _EMPTY[kind]
        create = assign(name, lambda variables: empty())
        return [Line(name, f"{name} = {empty()!r}", create, NONE, ())], name

    def sample_head(self) -> Head:
        if self.choices.random() < 0.2:
            return self._range()
        types = set(self.scope.types.values())
        kinds = [kind for kind in (INTS, INTS, STR, STRS, COUNTS) if kind in types]
        kind = self.choices.pick(kinds or [""])
        if not kind:
            raise DeadEnd
        if kind != COUNTS and self.tier >= 5 and self.choices.flip(0.2):
            over = self.expressions.sample(kind, 1)
        else:
            name = self.scope.use(kind)
            assert name is not None
            over = variable(name)
        if not over.uses or not over.simple:
            raise DeadEnd
        return self._items(over) if kind == COUNTS else self._elements(over, kind)

    def _range(self) -> Head:
        """`range(3)`, `range(len(xs))`"""
        name = self.scope.new_name(LOOP_NAMES[INT])
        if self.choices.flip(0.5) and (sized := self.scope.use(INTS) or self.scope.use(STR)):
            turns = then(itemgetter(sized), lambda value: zip(range(len(value))))
            text, uses = f"for {name} in range(len({sized})):", frozenset([sized])
            return Head(text, {name: INT}, turns, uses, ("range", "len"))
        count = self.choices.between(2, 4)
        text = f"for {name} in range({count}):"
        return Head(text, {name: INT}, lambda variables: zip(range(count)), NONE, ("range",))

    def _items(self, over: Expr) -> Head:
        """Keys and values of a dict."""
        key, value = (self.scope.new_name(LOOP_NAMES[kind]) for kind in (STR, INT))
        text = f"for {key}, {value} in {over.text}.items():"
        turns = then(over.value, dict.items)
        return Head(text, {key: STR, value: INT}, turns, over.uses, (*over.words, "items"))

    def _elements(self, over: Expr, kind: str) -> Head:
        """Elements of a list or letters of a text, sometimes with their index."""
        element_kind = INT if kind == INTS else STR
        element = self.scope.new_name(LOOP_NAMES[element_kind])
        if self.tier >= 4 and self.choices.flip(0.2):
            index = self.scope.new_name(LOOP_NAMES[INT])
            text = f"for {index}, {element} in enumerate({over.text}):"
            targets = {index: INT, element: element_kind}
            turns, words = then(over.value, enumerate), (*over.words, "enumerate")
            return Head(text, targets, turns, over.uses, words)
        text = f"for {element} in {over.text}:"
        return Head(text, {element: element_kind}, then(over.value, zip), over.uses, over.words)

    def sample_countdown(self, counter: str) -> Line:
        """The line that makes a while loop end."""
        if self.choices.flip(0.5):
            sign, by = "//", self.choices.between(2, 3)
        else:
            sign, by = "-", self.choices.between(3, 9)
        smaller = then(
            itemgetter(counter), lambda value: value // by if sign == "//" else value - by
        )
        text = f"{counter} {sign}= {by}"
        return Line(counter, text, assign(counter, smaller), NONE, ("shrink",), changes=True)


def count_down(counter: str, least: int) -> Action:
    """The turns of a while loop that ends when its counter is this small."""

    def turns(variables: Variables) -> Iterator[tuple[()]]:
        while variables[counter] > least:
            yield ()

    return turns
