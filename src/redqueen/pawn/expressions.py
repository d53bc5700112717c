"""Random expressions by the grammar's templates, over the variables in scope."""

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any

from redqueen.pawn.choices import Choices
from redqueen.pawn.grammar import BOOL, CHANGES, EXPRESSIONS, INT, LETTERS, STR, Template
from redqueen.pawn.scope import Scope
from redqueen.pawn.tree import Action, DeadEnd, Expr

NONE: frozenset[str] = frozenset()
_CONSTANTS = {"C": (1, 9), "F": (2, 4), "M": (2, 9), "R": (0, 1), "S": (1, 3)}


@cache
def variable(name: str) -> Expr:
    return Expr(name, itemgetter(name), frozenset([name]))


@cache
def _constant(value: int | str) -> Expr:
    return Expr(repr(value), lambda variables: value, NONE)


def then(value: Action, function: Callable[[Any], object]) -> Action:
    """The action whose value is the function of another's value."""
    return lambda variables: function(value(variables))


@cache
def _usable(changes: bool, kind: str, tier: int, types: frozenset[str]) -> tuple[Template, ...]:
    """The templates of this tier that can be filled with variables of these types; ints, texts and
    tests can also be made of constants."""
    return tuple(
        template
        for template in (CHANGES if changes else EXPRESSIONS)[kind]
        if template.tier <= tier
        and all(need in types or need in (INT, STR, BOOL) for need in template.needs)
        and (not template.needs or any(need in types for need in template.needs))
    )


class Expressions:
    def __init__(self, choices: Choices, scope: Scope, tier: int) -> None:
        self.choices, self.scope, self.tier = choices, scope, tier

    def sample(self, kind: str, depth: int) -> Expr:
        """An expression of this type, with up to this many operations nested."""
        if depth > 0:
            return self.fill(self.choose(kind), depth - 1)
        choices = self.choices
        name = None if kind == INT and choices.flip(0.1) else self.scope.use(kind)
        if name is not None:
            return variable(name)
        if kind == INT:
            return _constant(choices.between(1, 9))
        if kind == STR:
            return _constant(choices.pick(LETTERS) + choices.pick(LETTERS))
        if kind == BOOL:
            return self.fill(self.choose(BOOL), 0)
        raise DeadEnd

    def sample_test(self) -> Expr:
        """A condition that depends on a variable."""
        test = self.sample(BOOL, 2 if self.tier >= 5 else 1)
        if not test.uses:
            raise DeadEnd
        return test

    def choose(self, kind: str, changes: bool = False) -> Template:
        """A template that can be filled."""
        usable = _usable(changes, kind, self.tier, frozenset(self.scope.types.values()))
        if not usable:
            raise DeadEnd
        return self.choices.pick(usable)

    def fill(self, template: Template, depth: int, name: str = "") -> Expr:
        """The template with expressions and constants; `name` is the variable that it changes."""
        choices = self.choices
        text, first, uses = "", "", NONE
        words: tuple[str, ...] = (template.word,)
        deepest = choices.below(len(template.needs)) if template.needs else 0
        expressions = 0
        slots: list[Action | int | str] = []
        for part, value in template.parts:
            if part == "text":
                text += value
            elif part == "constant":
                constant = (
                    choices.pick(LETTERS) if value == "L" else choices.between(*_CONSTANTS[value])
                )
                text += repr(constant)
                slots.append(constant)
            elif part == "variable":
                text += name
            elif part == "same":
                text += first
            else:
                inner = self.sample(
                    value, depth if expressions == deepest and choices.flip(0.8) else 0
                )
                expressions += 1
                if inner.text == first:
                    raise DeadEnd  # `max(a, a)`, `n - n`
                text += inner.text if inner.simple or part == "open" else f"({inner.text})"
                slots.append(inner.value)
                first = first or inner.text
                uses |= inner.uses
                words += inner.words
        if template.needs and not uses and not name:
            raise DeadEnd  # made of constants alone
        return Expr(text, template.action(name, *slots), uses, words, template.simple)
