"""A function as a tree of statements: its source text, the actions that run it, which statements
are needed, and what it does in words."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Variables = dict[str, Any]
Action = Callable[[Variables], Any]
"""What a part of a function does with the variables: an expression returns its value, a statement
sets a variable."""


class DeadEnd(Exception):
    """The random choices so far cannot be completed to a fit program: backtrack and sample again.
    Caught by `Writer` for a statement and by `sample_program` for a whole function."""


class Expr(NamedTuple):
    text: str
    value: Action
    uses: frozenset[str]
    words: tuple[str, ...] = ()
    simple: bool = True
    """Needs no parentheses inside a larger expression."""


class Line(NamedTuple):
    """A statement that sets or changes one variable."""

    target: str
    text: str
    run: Action
    uses: frozenset[str]
    words: tuple[str, ...]
    changes: bool = False
    """Depends on the variable's old value."""


class Jump(NamedTuple):
    """break or continue."""

    text: str


class Return(NamedTuple):
    value: Expr


class Branch(NamedTuple):
    test: Expr
    body: Sequence["Statement"]
    orelse: Sequence["Statement"] = ()


class Loop(NamedTuple):
    head: str
    turns: Action
    """A tuple for each turn: the values of the variables that the loop itself sets."""
    uses: frozenset[str]
    words: tuple[str, ...]
    targets: tuple[str, ...]
    """Variables that the loop itself sets; none for a while loop."""
    body: Sequence["Statement"]


Statement = Line | Jump | Return | Branch | Loop


def walk(body: Sequence[Statement]) -> list[Statement]:
    """Every statement, outer before inner."""
    statements: list[Statement] = []
    for statement in body:
        statements.append(statement)
        if type(statement) is Branch:
            statements += walk(statement.body) + walk(statement.orelse)
        elif type(statement) is Loop:
            statements += walk(statement.body)
    return statements


def words(body: Sequence[Statement]) -> list[str]:
    """What a body does, in order, each word once, without names and constants."""
    operations: list[str] = []
    for statement in walk(body):
        if isinstance(statement, Branch):
            operations += ["if", *statement.test.words]
        elif isinstance(statement, Return):
            operations += statement.value.words
        elif not isinstance(statement, Jump):
            operations += statement.words
    return list(dict.fromkeys(operations))


def needed(
    body: Sequence[Statement], after: frozenset[str] = frozenset()
) -> tuple[list[Statement], frozenset[str]]:
    """Liveness analysis, backwards: the statements that the variables used `after` depend on, and
    the variables that these use themselves."""
    kept: list[Statement] = []
    for statement in reversed(body):
        if type(statement) is Line:
            if statement.target in after:
                kept.append(statement)
                after = statement.uses | (
                    after if statement.changes else after - {statement.target}
                )
        elif type(statement) is Return:
            kept.append(statement)
            after = after | statement.value.uses
        elif type(statement) is Branch:
            inside, before_inside = needed(statement.body, after)
            otherwise, before_otherwise = needed(statement.orelse, after)
            if otherwise and not inside:
                raise DeadEnd
            if inside:
                kept.append(Branch(statement.test, inside, otherwise))
                after = before_inside | before_otherwise | statement.test.uses
        elif type(statement) is Loop:
            turn = after | statement.uses
            _, before = needed(statement.body, turn)
            # a second pass, for what the next turn needs
            inside, before = needed(statement.body, turn | before)
            if any(type(part) is Line and part.target in after for part in walk(inside)):
                kept.append(statement._replace(body=inside))
                after = (turn | before) - frozenset(statement.targets)
        else:
            kept.append(statement)
    return kept[::-1], after


def source(arguments: Sequence[str], body: Sequence[Statement]) -> str:
    """The function's source text."""
    return "\n".join([f"def f({', '.join(arguments)}):", *_lines(body, "    ")]) + "\n"


def _lines(body: Sequence[Statement], indent: str) -> list[str]:
    lines: list[str] = []
    inner = indent + "    "
    for statement in body:
        if isinstance(statement, Line | Jump):
            lines.append(indent + statement.text)
        elif isinstance(statement, Return):
            lines.append(f"{indent}return {statement.value.text}")
        elif isinstance(statement, Branch):
            lines += [f"{indent}if {statement.test.text}:", *_lines(statement.body, inner)]
            if statement.orelse:
                lines += [f"{indent}else:", *_lines(statement.orelse, inner)]
        else:
            lines += [indent + statement.head, *_lines(statement.body, inner)]
    return lines
