"""The value codec: a candidate's results cross as literals, with tagged tuples for what has none
(programs/encode_results.py, decode_results.py), and are compared elsewhere, never where the
candidate runs.

A candidate may return anything, but has no say in what it is compared with. An instance of its own
class arrives as an object that equals nothing, whatever its `__eq__` says.
"""

import math
from collections.abc import Sequence
from typing import Any

from redqueen.benchmarks.programs import read_program
from redqueen.sandbox.literals import ordered

ENTRY = "_redqueen_entry"
MAX_VALUE = 1 << 24

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
