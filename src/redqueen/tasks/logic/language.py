"""The language of puzzles: variables with finite domains, and constraints as nested arrays.

    {"variables": {"a": "1..4", "b": [1, 3, 5], "c": ["red", "green"]},
     "constraints": [["<", "a", "b"], ["=>", ["=", "c", "red"], ["=", ["+", "a", "b"], 7]]]}

A text is a variable, or one of the texts of the domains. Whatever is read here was written by a
model: sizes are bounded, nothing is evaluated, and what is not understood is `Malformed`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from redqueen.tasks.kind import Malformed

Value = int | str
Expression = Any
"""A number, a text, or a tuple of an operator and expressions."""

MAX_CHARS = 6000
MAX_VARIABLES, MAX_VALUES, MAX_CONSTRAINTS, MAX_SIZE, MAX_DEPTH = 16, 20, 40, 400, 8
MAX_VALUE, MAX_NUMBER = 999, 99_999
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,15}")
_RANGE = re.compile(r"(-?\d{1,3})\.\.(-?\d{1,3})")
_SAME = {"==": "=", "<>": "!=", "implies": "=>", "mod": "%", "alldifferent": "all_different"}

NUMBER, TEXT, TRUTH, ANY = "number", "text", "truth", "number or text"
OPERATORS: dict[str, tuple[str, str, int, int]] = {
    "=": (TRUTH, ANY, 2, 2),
    "!=": (TRUTH, ANY, 2, 2),
    "<": (TRUTH, NUMBER, 2, 2),
    "<=": (TRUTH, NUMBER, 2, 2),
    ">": (TRUTH, NUMBER, 2, 2),
    ">=": (TRUTH, NUMBER, 2, 2),
    "all_different": (TRUTH, ANY, 2, MAX_VARIABLES),
    "not": (TRUTH, TRUTH, 1, 1),
    "and": (TRUTH, TRUTH, 2, MAX_VARIABLES),
    "or": (TRUTH, TRUTH, 2, MAX_VARIABLES),
    "=>": (TRUTH, TRUTH, 2, 2),
    "+": (NUMBER, NUMBER, 2, MAX_VARIABLES),
    "-": (NUMBER, NUMBER, 2, 2),
    "*": (NUMBER, NUMBER, 2, 4),
    "%": (NUMBER, NUMBER, 2, 2),
    "abs": (NUMBER, NUMBER, 1, 1),
    "count": (NUMBER, TRUTH, 1, MAX_VARIABLES),
}
"""Of each operator: what it is, what its arguments are, the fewest and the most of them."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """The payload of a puzzle."""

    variables: Mapping[str, tuple[Value, ...]]
    constraints: tuple[Expression, ...]


def read_json(text: str) -> Any:
    """JSON as a model writes it; names are given once, numbers are whole."""
    if len(text) > MAX_CHARS:
        raise Malformed(f"{len(text)} characters, at most {MAX_CHARS}")
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_float=_refuse, parse_constant=_refuse
        )
    except (ValueError, RecursionError) as error:
        if isinstance(error, Malformed):
            raise
        raise Malformed(f"not JSON: {error}"[:120]) from error


def read_puzzle(fields: Any) -> Puzzle:
    """A checked puzzle from its JSON; raises Malformed."""
    if not isinstance(fields, dict) or set(fields) != {"variables", "constraints"}:
        raise Malformed("expected an object with variables and constraints")
    variables, constraints = fields["variables"], fields["constraints"]
    if not isinstance(variables, dict) or not 1 <= len(variables) <= MAX_VARIABLES:
        raise Malformed(f"variables: expected an object of 1 to {MAX_VARIABLES} names")
    domains = {_check_name(name): _read_domain(name, text) for name, text in variables.items()}
    texts = {value for domain in domains.values() for value in domain if isinstance(value, str)}
    if both := sorted(texts & domains.keys()):
        raise Malformed(f"{both[0]} is a variable and a value")
    if not isinstance(constraints, list | tuple) or not 1 <= len(constraints) <= MAX_CONSTRAINTS:
        raise Malformed(f"constraints: expected an array of 1 to {MAX_CONSTRAINTS}")
    types = {name: _type(domain[0]) for name, domain in domains.items()}
    types |= dict.fromkeys(texts, TEXT)
    read = tuple(_read(part, types, 0) for part in constraints)
    if sum(map(size, read)) > MAX_SIZE:
        raise Malformed(f"constraints of more than {MAX_SIZE} parts")
    for constraint in read:
        if kind_of(constraint, types) != TRUTH:
            raise Malformed("a constraint that is neither true nor false")
        if not names(constraint) & domains.keys():
            raise Malformed("a constraint without a variable")
    return Puzzle(domains, read)


def write_puzzle(puzzle: Puzzle) -> str:
    """As it is shown, a line for each variable and constraint."""
    domains = [
        f"    {json.dumps(name)}: {_write_domain(d)}" for name, d in puzzle.variables.items()
    ]
    constraints = [f"    {json.dumps(constraint)}" for constraint in puzzle.constraints]
    return (
        '{\n  "variables": {\n' + ",\n".join(domains) + '\n  },\n  "constraints": [\n'
        + ",\n".join(constraints) + "\n  ]\n}"
    )  # fmt: skip


def size(expression: Expression) -> int:
    """Parts of an expression."""
    return 1 + sum(map(size, expression[1:])) if isinstance(expression, tuple) else 1


def names(expression: Expression) -> set[str]:
    """Texts of an expression that are no operators: variables and values."""
    if isinstance(expression, tuple):
        return {name for part in expression[1:] for name in names(part)}
    return {expression} if isinstance(expression, str) else set()


def subexpressions(expression: Expression) -> Iterator[tuple[Any, ...]]:
    """All that have an operator, itself first."""
    if isinstance(expression, tuple):
        yield expression
        for part in expression[1:]:
            yield from subexpressions(part)


def kind_of(expression: Expression, types: Mapping[str, str]) -> str:
    """number, text or truth; of an expression that was read."""
    if isinstance(expression, tuple):
        return OPERATORS[expression[0]][0]
    return types[expression] if isinstance(expression, str) else NUMBER


def _read(part: Any, types: Mapping[str, str], depth: int) -> Expression:
    if isinstance(part, str):
        if part not in types:
            raise Malformed(f"{part[:20]!r} is neither a variable nor a value")
        return part
    if isinstance(part, int) and not isinstance(part, bool):
        if abs(part) > MAX_NUMBER:
            raise Malformed(f"a number beyond {MAX_NUMBER}")
        return part
    if not isinstance(part, list | tuple) or not part or not isinstance(part[0], str):
        raise Malformed("expected a number, a name, or an array that begins with an operator")
    name = _SAME.get(part[0], part[0])
    if name not in OPERATORS:
        raise Malformed(f"no operator {part[0][:20]!r}")
    if depth >= MAX_DEPTH:
        raise Malformed(f"nested more than {MAX_DEPTH} deep")
    _, takes, fewest, most = OPERATORS[name]
    if not fewest <= len(part) - 1 <= most:
        raise Malformed(f"{name} with {len(part) - 1} arguments")
    arguments = tuple(_read(one, types, depth + 1) for one in part[1:])
    kinds = {kind_of(one, types) for one in arguments}
    if len(kinds) > 1 or not kinds <= ({NUMBER, TEXT} if takes == ANY else {takes}):
        raise Malformed(f"{name} takes {takes}, got {' and '.join(sorted(kinds))}")
    if name == "%" and not (isinstance(arguments[1], int) and arguments[1] > 0):
        raise Malformed("% takes a positive number as its second argument")
    return (name, *arguments)


def _read_domain(name: str, domain: Any) -> tuple[Value, ...]:
    if isinstance(domain, str):
        parts = _RANGE.fullmatch(domain)
        if parts is None:
            raise Malformed(f"{name}: expected a range such as 1..5, or an array of values")
        first, last = int(parts[1]), int(parts[2])
        if not first <= last < first + MAX_VALUES:
            raise Malformed(f"{name}: a range of 1 to {MAX_VALUES} values")
        return tuple(range(first, last + 1))
    if not isinstance(domain, list | tuple) or not 1 <= len(domain) <= MAX_VALUES:
        raise Malformed(f"{name}: expected 1 to {MAX_VALUES} values")
    values = [_check_value(name, value) for value in domain]
    if len(set(values)) < len(values) or len({type(value) for value in values}) > 1:
        raise Malformed(f"{name}: values must differ, and be all numbers or all texts")
    return tuple(values)


def _check_value(name: str, value: Any) -> Value:
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_VALUE:
        return value
    raise Malformed(f"{name}: a value is a number up to {MAX_VALUE} or a word")


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or not _WORD.fullmatch(name):
        raise Malformed("a variable is named by a word of at most 16 letters and digits")
    return name


def _type(value: Value) -> str:
    return TEXT if isinstance(value, str) else NUMBER


def _write_domain(domain: tuple[Value, ...]) -> str:
    first = domain[0]
    if isinstance(first, int) and len(domain) > 2:
        last = first + len(domain) - 1
        if domain == tuple(range(first, last + 1)):
            return json.dumps(f"{first}..{last}")
    return json.dumps(domain)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise Malformed("a name is given twice")
    return fields


def _refuse(text: str) -> Any:
    raise Malformed(f"{text[:20]} is not a whole number")
