"""A function as a tree of statements: how it is written down, what of it is needed, and what it does in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace


class NoWay(Exception):
    """A draw that led nowhere: go on with the next one."""


@dataclass(frozen=True, slots=True)
class Expr:
    text: str
    uses: frozenset[str]
    words: tuple[str, ...] = ()
    simple: bool = True
    """Stands inside a larger expression without parentheses."""


@dataclass(frozen=True, slots=True)
class Line:
    """A statement that sets or changes one variable."""

    target: str
    text: str
    uses: frozenset[str]
    words: tuple[str, ...]
    changes: bool = False
    """It needs the variable's old value."""


@dataclass(frozen=True, slots=True)
class Jump:
    """break or continue."""

    text: str


@dataclass(frozen=True, slots=True)
class Return:
    value: Expr


@dataclass(frozen=True, slots=True)
class Branch:
    test: Expr
    body: Sequence["Statement"]
    orelse: Sequence["Statement"] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    head: str
    uses: frozenset[str]
    words: tuple[str, ...]
    targets: tuple[str, ...]
    """Variables that the loop itself sets; none for a while loop."""
    body: Sequence["Statement"]


Statement = Line | Jump | Return | Branch | Loop


def walk(body: Sequence[Statement]) -> list[Statement]:
    """Every statement, outer before inner."""
    found: list[Statement] = []
    for statement in body:
        found.append(statement)
        if isinstance(statement, Branch):
            found += walk(statement.body) + walk(statement.orelse)
        elif isinstance(statement, Loop):
            found += walk(statement.body)
    return found


def words(body: Sequence[Statement]) -> list[str]:
    """What a body does, in order, each word once; names and constants are left out."""
    found: list[str] = []
    for statement in walk(body):
        if isinstance(statement, Branch):
            found += ["if", *statement.test.words]
        elif isinstance(statement, Return):
            found += statement.value.words
        elif not isinstance(statement, Jump):
            found += statement.words
    return list(dict.fromkeys(found))


def needed(body: Sequence[Statement], after: frozenset[str] = frozenset()) -> tuple[list[Statement], frozenset[str]]:
    """The statements that what comes after needs, and the variables that these need themselves. Goes backwards."""
    kept: list[Statement] = []
    for statement in reversed(body):
        if isinstance(statement, Line):
            if statement.target in after:
                kept.append(statement)
                after = statement.uses | (after if statement.changes else after - {statement.target})
        elif isinstance(statement, Return):
            kept.append(statement)
            after = after | statement.value.uses
        elif isinstance(statement, Branch):
            inside, before_inside = needed(statement.body, after)
            otherwise, before_otherwise = needed(statement.orelse, after)
            if otherwise and not inside:
                raise NoWay
            if inside:
                kept.append(Branch(statement.test, inside, otherwise))
                after = before_inside | before_otherwise | statement.test.uses
        elif isinstance(statement, Loop):
            turn = after | statement.uses
            _, before = needed(statement.body, turn)
            inside, before = needed(statement.body, turn | before)  # a second round: what the next turn needs
            if any(isinstance(part, Line) and part.target in after for part in walk(inside)):
                kept.append(replace(statement, body=inside))
                after = (turn | before) - frozenset(statement.targets)
        else:
            kept.append(statement)
    return kept[::-1], after


def source(arguments: Sequence[str], body: Sequence[Statement]) -> str:
    """The function as a reader sees it."""
    lines = _lines(body, "    ", lambda line, name: line, "return {}")
    return "\n".join([f"def f({', '.join(arguments)}):", *lines]) + "\n"


def watched(body: Sequence[Statement]) -> tuple[str, list[str]]:
    """The body to be run at the top level under observation: each step calls `_t(number, value)`, a return raises `_r`.

    Also the variable that each number is about, empty for a jump.
    """
    names: list[str] = []

    def note(line: str, name: str) -> str:
        names.append(name)
        number = len(names) - 1
        return f"{line}; _t({number}, {name})" if name else f"_t({number}); {line}"

    return "\n".join(_lines(body, "", note, "raise _r({})")) + "\n", names


def _lines(body: Sequence[Statement], indent: str, note: Callable[[str, str], str], leave: str) -> list[str]:
    lines: list[str] = []
    inner = indent + "    "
    for statement in body:
        if isinstance(statement, Line):
            lines.append(indent + note(statement.text, statement.target))
        elif isinstance(statement, Jump):
            lines.append(indent + note(statement.text, ""))
        elif isinstance(statement, Return):
            lines.append(indent + note(leave.format(statement.value.text), ""))
        elif isinstance(statement, Branch):
            lines += [f"{indent}if {statement.test.text}:", *_lines(statement.body, inner, note, leave)]
            if statement.orelse:
                lines += [f"{indent}else:", *_lines(statement.orelse, inner, note, leave)]
        else:
            lines.append(indent + statement.head)
            steps = [note("", name).removeprefix("; ") for name in statement.targets]
            lines += [inner + step for step in steps if step]
            lines += _lines(statement.body, inner, note, leave)
    return lines
