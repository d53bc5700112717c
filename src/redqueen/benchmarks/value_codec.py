"""How a candidate's results come to us: as literals, with marks for what has none, compared here
and never where the candidate runs.

A candidate may return what it likes; it cannot say what its answer is compared with, nor how. An
object of a class of its own arrives as a mark that equals nothing, whatever its `__eq__` says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from redqueen.sandbox.literals import ordered, parse_literal

ENTRY = "_redqueen_entry"
MAX_VALUE = 1 << 24
_MARK = "\0"

LARGE = 50_000
"""Values with more parts than this cross over as a digest of their parts; not where they are a list
of floats, which need only be near."""

_HARNESS = """

def _redqueen_harness(call):
    import builtins as b, collections, decimal, fractions

    def plain(value):
        kind = b.type(value)
        if value is None or kind in (b.bool, b.int, b.str, b.bytes):
            return value
        if kind is b.float:
            return value if value - value == 0 else ("\\0float", b.float.__repr__(value))
        if kind is b.complex:
            return ("\\0complex", b.float.__repr__(value.real), b.float.__repr__(value.imag))
        if kind is b.list:
            return [plain(item) for item in value]
        if kind is b.tuple:
            return b.tuple([plain(item) for item in value])
        if kind is b.set or b.isinstance(value, (b.set, b.frozenset)):
            return b.set([plain(item) for item in value])
        if b.isinstance(value, b.dict):
            return {plain(key): plain(item) for key, item in b.dict.items(value)}
        if b.isinstance(value, b.list):
            return [plain(item) for item in b.list.__iter__(value)]
        if b.isinstance(value, collections.deque):
            return ("\\0deque", [plain(item) for item in value])
        if b.isinstance(value, b.tuple):
            return b.tuple([plain(item) for item in b.tuple.__iter__(value)])
        if kind is fractions.Fraction:
            return ("\\0fraction", value.numerator, value.denominator)
        if kind is decimal.Decimal:
            return ("\\0decimal", b.str(value))
        for base, make in ((b.str, b.str.__str__), (b.int, b.int.__index__), (b.float, b.float.__float__)):
            if b.isinstance(value, base):
                return make(value)
        return ("\\0object", b.type.__name__ if kind is b.type else kind.__name__)

    def size(value, most):
        kind = b.type(value)
        if kind in (b.list, b.tuple):
            most -= 1
            for item in value:
                most = size(item, most)
                if most < 0:
                    break
            return most
        return most - (b.len(value) if kind in (b.str, b.bytes) else 1)

    def all_whole(value):
        return b.len([None for item in value if item - item == 0 and item == item // 1]) == b.len(value)

    def digest(value, update):
        kind = b.type(value)
        if kind is b.float and value - value == 0 and value == b.int(value):
            value, kind = b.int(value), b.int
        if kind is b.float:
            update((b.repr(value) + ",").encode())
        elif value is None or kind in (b.bool, b.int):
            update((b.repr(value if value is None else b.int(value)) + ",").encode())
        elif kind in (b.str, b.bytes):
            update((b.repr(value) + ",").encode("utf-8", "backslashreplace"))
        elif kind in (b.list, b.tuple):
            update("[".encode() if kind is b.list else "(".encode())
            kinds = b.set(b.map(b.type, value))
            if kinds == {b.str}:  # all at once: a text equals texts only
                update(b.repr(value).encode("utf-8", "backslashreplace"))
            elif kinds <= {b.int, b.float, b.bool} and all_whole(value):
                update((b.repr([b.int(item) for item in value])[1:-1].replace(" ", "") + ",").encode())
            else:
                for item in value:
                    digest(item, update)
            update("]".encode())
        else:
            raise b.ValueError

    def entry(*arguments, **keywords):
        value = call(*arguments, **keywords)
        if size(value, %d) < 0 and b.set(b.map(b.type, value)) != {b.float}:
            import hashlib

            try:
                found = hashlib.blake2b(digest_size=32)
                digest(value, found.update)
                return ("\\0digest", found.hexdigest())
            except b.ValueError:
                pass
        return plain(value)

    return entry

"""

_DECODER = """
def _redqueen_decode(value):
    if isinstance(value, tuple) and value and isinstance(value[0], str) and value[0][:1] == "\\0":
        kind = value[0]
        if kind == "\\0float":
            return float(value[1])
        if kind == "\\0complex":
            return complex(float(value[1]), float(value[2]))
        if kind == "\\0fraction":
            return __import__("fractions").Fraction(value[1], value[2])
        if kind == "\\0decimal":
            return __import__("decimal").Decimal(value[1])
        return type("Foreign", (), {})()
    if isinstance(value, (list, tuple, set)):
        return type(value)(_redqueen_decode(item) for item in value)
    if isinstance(value, dict):
        return {_redqueen_decode(key): _redqueen_decode(item) for key, item in value.items()}
    return value

"""


def with_entry(program: str, call: str) -> str:
    """The program, and behind it the entry that the sandbox calls: `call` is an expression for the
    function to be called."""
    return f"{program}\n{_HARNESS % LARGE}\n{ENTRY} = _redqueen_harness(lambda *arguments, **keywords: ({call})(*arguments, **keywords))\n"


def tests_of(name: str, tests: str) -> str:
    """Trusted tests that know the candidate by its name."""
    return f"{_DECODER}\ndef _redqueen_candidate(*arguments):\n    return _redqueen_decode(candidate(*arguments))\n\n{tests}\n".replace(
        "_redqueen_candidate", name
    )


def arguments_text(arguments: Sequence[Any]) -> str:
    """The arguments of a call as an expression; a literal wherever no number is infinite or none."""
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
    if isinstance(value, complex):  # the parts may be negative zeros, which `0-1j` cannot say
        return f"complex({_expression(value.real)}, {_expression(value.imag)})"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{_expression(key)}: {_expression(item)}" for key, item in value.items())
            + "}"
        )
    inner = "".join(f"{_expression(item)}, " for item in value)
    return (
        f"[{inner}]"
        if isinstance(value, list)
        else f"({inner})"
        if isinstance(value, tuple)
        else f"set([{inner}])"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """An object that has no literal: equal to nothing else."""

    name: str


@dataclass(frozen=True, slots=True)
class Digest:
    """A large value, known by the digest of its parts: integral floats and bools as integers, lists
    and tuples told apart."""

    text: str


def arrived(text: str) -> Any:
    """The value that a canonical text stands for, marks read. What it claims to be is hostile, so
    nothing here may raise."""
    try:
        return _decode(parse_literal(text, MAX_VALUE))
    except (TypeError, ValueError):  # a set of what only claims to have a hash
        return Foreign("unreadable")


def _decode(value: Any) -> Any:
    if (
        isinstance(value, tuple)
        and value
        and isinstance(value[0], str)
        and value[0].startswith(_MARK)
    ):
        return _marked(value)
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_decode(item) for item in value)
    if isinstance(value, set):
        return {_decode(item) for item in value}
    if isinstance(value, dict):
        return {_decode(key): _decode(item) for key, item in value.items()}
    return value


def _marked(value: tuple[Any, ...]) -> Any:
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


def same(given: Any, expected: Any, atol: float) -> bool:
    """Equal as Python has it, or as near as the benchmark allows: `atol`, where it gives one, else
    a millionth between floats."""
    try:
        if given == expected:
            return True
        atol = atol or (1e-6 if _floats(expected) else 0.0)
        return near(given, expected, atol)
    except (
        TypeError,
        ValueError,
        ArithmeticError,
    ):  # a complex beside a text, a signalling Decimal
        return False


def near(given: Any, expected: Any, atol: float) -> bool:
    if _number(expected):
        return _number(given) and _near_numbers(given, expected, atol)
    if isinstance(expected, (list, tuple)):
        return (
            type(given) is type(expected)
            and len(given) == len(expected)
            and all(map(near, given, expected, [atol] * len(expected)))
        )
    if isinstance(expected, dict):
        return (
            isinstance(given, dict)
            and given.keys() == expected.keys()
            and all(near(given[key], expected[key], atol) for key in expected)
        )
    return bool(given == expected)


def _near_numbers(given: Any, expected: Any, atol: float) -> bool:
    if given == expected:
        return True
    if any(isinstance(number, float) and not math.isfinite(number) for number in (given, expected)):
        return bool(given != given and expected != expected)  # both are not a number
    return bool(atol and abs(given - expected) <= atol + RTOL * abs(expected))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, Fraction)) and not isinstance(value, bool)


def _floats(value: Any) -> bool:
    return isinstance(value, float) or (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(item, float) for item in value)
    )


def same_elements(given: Any, expected: Any) -> bool:
    """Equal whatever the order and the container."""
    if not isinstance(given, (list, tuple, set)) or not isinstance(expected, (list, tuple, set)):
        return False
    try:
        return set(given) == set(expected)
    except TypeError:  # lists in it
        return all(item in expected for item in given) and all(item in given for item in expected)
