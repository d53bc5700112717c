"""Coverage: which structures a world's programs have had so far, and which behaviours.

Structure is a cell of a coarse grid over complexity; behaviour is what a program does to probe
inputs of the types it takes. A program that only looks different fills a new cell but shows no new
behaviour.
"""

import ast
from collections.abc import Mapping
from functools import lru_cache

from redqueen.records import content_key
from redqueen.sandbox import Job, Limits, Outcome

_INTEGERS = (0, 1, -2, 7)
_TEXTS = ("", "a", "bca", "Abc de")
_FLOATS = (0.0, 1.5, -2.25, 10.0)
_SIZES = (0, 1, 3, 5)
PROBES = 4


def cell(kind: str, features: Mapping[str, float]) -> str:
    """The structural cell: kind, and coarse steps of depth, branching, length and variables."""
    depth, branching = features["ast_depth"] // 2, min(features["cyclomatic"], 12)
    lines, variables = features["loc"] // 3, min(features["variables"] // 2, 6)
    return f"{kind}/d{depth}/c{branching}/l{lines}/v{variables}"


def probe(program: str, first_input: str) -> Job:
    """The program on probe inputs that look like its own first input."""
    arguments = _arguments(first_input)
    inputs = tuple(
        ", ".join(repr(_like(value, number)) for value in arguments) for number in range(PROBES)
    )
    return Job(program, inputs, limits=Limits(0.25, 256))


def behaviour(first_input: str, outcome: Outcome) -> str:
    """A hash of what came of the probes: values, or the kind of what went wrong; with the types
    that it takes."""
    types = ", ".join(type(value).__name__ for value in _arguments(first_input))
    seen = (
        result.text if result.kind == "value" else result.kind + result.text.partition(":")[0]
        for result in outcome.results
    )
    return content_key(types, *seen)[:16]


@lru_cache(1 << 14)  # a problem's are asked for before its probes and after
def _arguments(text: str) -> tuple[object, ...]:
    """The values of a call's arguments; one None where they cannot be read as such."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        return tuple(
            ast.literal_eval(argument)
            for argument in [*call.args, *(keyword.value for keyword in call.keywords)]
        )
    except (ValueError, SyntaxError, MemoryError, RecursionError, AssertionError):
        return (None,)


def _like(value: object, number: int) -> object:
    """The probe of this number that has the value's type; containers hold probes like their first
    element."""
    if isinstance(value, bool):
        return number % 2 == 0
    if isinstance(value, int):
        return _INTEGERS[number]
    if isinstance(value, float):
        return _FLOATS[number]
    if isinstance(value, str):
        return _TEXTS[number]
    if isinstance(value, list | tuple):
        first = value[0] if value else 0
        items = [_like(first, (number + place) % PROBES) for place in range(_SIZES[number])]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        key, held = next(iter(value.items()), ("a", 1))
        return {
            _frozen(_like(key, place % PROBES)): _like(held, (number + place) % PROBES)
            for place in range(min(_SIZES[number], PROBES))
        }
    return value


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
