"""Restores the types that EvalPlus's inputs for MBPP+ lost in JSON, from the calls in the task's
own assertions.

`assert f((1, 2)) == 3` says that the first argument is a tuple; the file has `[1, 2]` there, and so
for every further input.
"""

import ast
import contextlib
from collections.abc import Sequence
from typing import Any


def restore_types(
    inputs: Sequence[Sequence[Any]], calls: Sequence[Sequence[Any]]
) -> list[list[Any]]:
    """The inputs, with tuples, sets and complex numbers where the calls have them."""
    restored = [list(arguments) for arguments in inputs]
    is_complex_task = any(isinstance(argument, complex) for call in calls for argument in call)
    for place in range(max((len(arguments) for arguments in inputs), default=0)):
        examples = [call[place] for call in calls if place < len(call)]
        rows = [row for row in restored if place < len(row)]
        are_complex = _are_complex([row[place] for row in rows], examples, is_complex_task)
        for row in rows:
            row[place] = complex(row[place]) if are_complex else _like(row[place], examples, list)
    return restored


def find_calls(assertions: str, entry: str) -> list[list[Any]]:
    """The arguments of each call of the function, where they are literals."""
    calls = []
    for node in ast.walk(ast.parse(assertions)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == entry:
            with contextlib.suppress(ValueError):
                calls.append([ast.literal_eval(argument) for argument in node.args])
    return calls


def _are_complex(values: Sequence[Any], examples: Sequence[Any], is_complex_task: bool) -> bool:
    """JSON has complex numbers as text, in places where the calls have numbers."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or any(isinstance(example, str) for example in examples):
        return False
    try:
        numbers = [complex(text) for text in texts]
    except ValueError:
        return False
    return is_complex_task or any(number.imag for number in numbers)


def _like(value: Any, examples: Sequence[Any], outer: type) -> Any:
    """The value with the types that the examples have in its place. Nested deeper than they are, it
    takes the type of its container."""
    if isinstance(value, list):
        alike = [example for example in examples if isinstance(example, (list, tuple, set))]
        kinds = {type(example) for example in alike}
        kind = kinds.pop() if len(kinds) == 1 else list if kinds else outer
        parts = [part for example in alike for part in example]
        return kind([_like(item, parts, kind) for item in value])
    if isinstance(value, dict):
        dicts = [example for example in examples if isinstance(example, dict)]
        keys = [key for example in dicts for key in example]
        values = [item for example in dicts for item in example.values()]
        return {_restore_key(key, keys): _like(item, values, list) for key, item in value.items()}
    return value


def _restore_key(key: str, examples: Sequence[Any]) -> Any:
    """JSON keys are text; where the examples have integer keys, digits become one."""
    has_integers = any(type(example) is int for example in examples)
    return int(key) if has_integers and key.lstrip("-").isdigit() else key
