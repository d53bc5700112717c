"""EvalPlus's inputs for MBPP+ with the types that JSON has lost, taken from the calls in the task's
own assertions.

`assert f((1, 2)) == 3` says that the first argument is a tuple; the file says `[1, 2]` for it and
for every further input.
"""

import ast
import contextlib
from collections.abc import Sequence
from typing import Any


def typed(inputs: Sequence[Sequence[Any]], calls: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The inputs, with tuples, sets and complex numbers where the calls have them."""
    typed_inputs = [list(arguments) for arguments in inputs]
    complex_task = any(isinstance(argument, complex) for call in calls for argument in call)
    for place in range(max((len(arguments) for arguments in inputs), default=0)):
        examples = [call[place] for call in calls if place < len(call)]
        rows = [row for row in typed_inputs if place < len(row)]
        complex_here = _are_complex([row[place] for row in rows], examples, complex_task)
        for row in rows:
            row[place] = complex(row[place]) if complex_here else _like(row[place], examples, list)
    return typed_inputs


def _are_complex(values: Sequence[Any], examples: Sequence[Any], complex_task: bool) -> bool:
    """JSON has no complex numbers: they are texts there, in a place where the calls have numbers."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or any(isinstance(example, str) for example in examples):
        return False
    try:
        numbers = [complex(text) for text in texts]
    except ValueError:
        return False
    return complex_task or any(number.imag for number in numbers)


def calls_in(assertions: str, entry: str) -> list[list[Any]]:
    """The arguments of each call of the function, where they are literals."""
    found = []
    for node in ast.walk(ast.parse(assertions)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == entry:
            with contextlib.suppress(ValueError):
                found.append([ast.literal_eval(argument) for argument in node.args])
    return found


def _like(value: Any, examples: Sequence[Any], outer: type) -> Any:
    """The value with the types that the examples have in its place; nested deeper than they are,
    with that of what it stands in."""
    if isinstance(value, list):
        alike = [example for example in examples if isinstance(example, (list, tuple, set))]
        kinds = {type(example) for example in alike}
        kind = kinds.pop() if len(kinds) == 1 else list if kinds else outer
        return kind(
            [_like(item, [part for example in alike for part in example], kind) for item in value]
        )
    if isinstance(value, dict):
        maps = [example for example in examples if isinstance(example, dict)]
        keys, values = (
            [key for one in maps for key in one],
            [item for one in maps for item in one.values()],
        )
        return {_key(key, keys): _like(item, values, list) for key, item in value.items()}
    return value


def _key(key: str, examples: Sequence[Any]) -> Any:
    """JSON makes every key a text; where keys may be numbers, digits are one."""
    return (
        int(key)
        if any(type(example) is int for example in examples) and key.lstrip("-").isdigit()
        else key
    )
