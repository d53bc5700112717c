"""The value codec: a candidate's results cross as literals, with tagged tuples for what has none,
and are compared here, never where the candidate runs.

A candidate may return anything, but has no say in what it is compared with. An instance of its own
class arrives as `Foreign`, which equals nothing, whatever its `__eq__` says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from redqueen.benchmarks.programs import read_program
from redqueen.sandbox.literals import ordered, parse_literal

ENTRY = "_redqueen_entry"
MAX_VALUE = 1 << 24
_TAG = "\0"

LARGE = 50_000
"""Values with more parts than this cross as a digest, except lists of floats, which are compared
with a tolerance."""


def with_entry(program: str, call: str) -> str:
    """The program, and behind it the entry that the sandbox calls. `call` is an expression for the
    candidate's function."""
    return (
        f"{program}\n{read_program('encode_results')}\n{ENTRY} = _redqueen_wrap("
        f"lambda *arguments, **keywords: ({call})(*arguments, **keywords), {LARGE})\n"
    )


def with_candidate(name: str, tests: str) -> str:
    """Trusted tests that call the candidate by this name."""
    return (
        f"{read_program('decode_results')}\ndef {name}(*arguments):\n"
        f"    return _redqueen_decode(candidate(*arguments))\n\n{tests}\n"
    )


def arguments_text(arguments: Sequence[Any]) -> str:
    """The arguments of a call as source: a literal unless a number is infinite or NaN."""
    return ", ".join([_expression(argument) for argument in arguments])


def is_literal(value: Any) -> bool:
    if isinstance(value, (float, complex)):
        return isinstance(value, float) and math.isfinite(value)
    if isinstance(value, dict):
        return all(is_literal(key) and is_literal(item) for key, item in value.items())
    return (
        all(is_literal(item) for item in value) if isinstance(value, (list, tuple, set)) else True
    )


def _expression(value: Any) -> str:
    if is_literal(value):
        return ordered(value, MAX_VALUE)
    if isinstance(value, float):
        return f"float('{value!r}')"
    if isinstance(value, complex):  # parts may be -0.0, which `0-1j` cannot express
        return f"complex({_expression(value.real)}, {_expression(value.imag)})"
    if isinstance(value, dict):
        pairs = [f"{_expression(key)}: {_expression(item)}" for key, item in value.items()]
        return "{" + ", ".join(pairs) + "}"
    inner = "".join(f"{_expression(item)}, " for item in value)
    if isinstance(value, list):
        return f"[{inner}]"
    return f"({inner})" if isinstance(value, tuple) else f"set([{inner}])"


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """An object without a literal; equal to nothing."""

    name: str


@dataclass(frozen=True, slots=True)
class Digest:
    """A large value by the hash of its parts: integral floats and bools count as integers, lists
    and tuples differ."""

    text: str


def decode(text: str) -> Any:
    """The value of an encoded result. The text is hostile, so this never raises."""
    try:
        return _untag(parse_literal(text, MAX_VALUE))
    except (TypeError, ValueError):  # a set whose items are unhashable once decoded
        return Foreign("unreadable")


def _untag(value: Any) -> Any:
    if (
        isinstance(value, tuple)
        and value
        and isinstance(value[0], str)
        and value[0].startswith(_TAG)
    ):
        return _untag_tuple(value)
    if isinstance(value, list):
        return [_untag(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_untag(item) for item in value)
    if isinstance(value, set):
        return {_untag(item) for item in value}
    if isinstance(value, dict):
        return {_untag(key): _untag(item) for key, item in value.items()}
    return value


def _untag_tuple(value: tuple[Any, ...]) -> Any:
    try:
        if value[0] == "\0float":
            return float(value[1])
        if value[0] == "\0digest":
            return Digest(str(value[1]))
        if value[0] == "\0complex":
            return complex(float(value[1]), float(value[2]))
        if value[0] == "\0fraction":
            return Fraction(value[1], value[2])
        if value[0] == "\0decimal":
            return Decimal(value[1])
    except (IndexError, ValueError, TypeError, ArithmeticError):
        pass
    return Foreign(str(value[1:2]))


RTOL = 1e-7


def is_equal(actual: Any, expected: Any, atol: float) -> bool:
    """Equal in Python's sense, or within `atol`; where that is 0, floats within a millionth."""
    try:
        if actual == expected:
            return True
        atol = atol or (1e-6 if _are_floats(expected) else 0.0)
        return is_near(actual, expected, atol)
    except (TypeError, ValueError, ArithmeticError):  # a complex and a text, a signalling Decimal
        return False


def is_near(actual: Any, expected: Any, atol: float) -> bool:
    if _is_number(expected):
        return _is_number(actual) and _are_near(actual, expected, atol)
    if isinstance(expected, (list, tuple)):
        return (
            type(actual) is type(expected)
            and len(actual) == len(expected)
            and all(map(is_near, actual, expected, [atol] * len(expected)))
        )
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(is_near(actual[key], expected[key], atol) for key in expected)
        )
    return bool(actual == expected)


def _are_near(actual: Any, expected: Any, atol: float) -> bool:
    if actual == expected:
        return True
    if any(
        isinstance(number, float) and not math.isfinite(number) for number in (actual, expected)
    ):
        return bool(actual != actual and expected != expected)  # both NaN
    return bool(atol and abs(actual - expected) <= atol + RTOL * abs(expected))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, Fraction)) and not isinstance(value, bool)


def _are_floats(value: Any) -> bool:
    return isinstance(value, float) or (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(item, float) for item in value)
    )


def has_same_elements(actual: Any, expected: Any) -> bool:
    """Equal in any order and container."""
    if not isinstance(actual, (list, tuple, set)) or not isinstance(expected, (list, tuple, set)):
        return False
    try:
        return set(actual) == set(expected)
    except TypeError:  # unhashable items
        return all(item in expected for item in actual) and all(item in actual for item in expected)
