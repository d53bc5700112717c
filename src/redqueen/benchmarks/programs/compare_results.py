"""Runs behind decode_results, as a script: reads a rule, a tolerance and pairs of results from
standard input, and prints `yes` if every pair agrees.

It runs in the sandbox because the texts are a candidate's: they may take any time to read and to
compare. An exception is a no.
"""

import ast
import json
import math
import sys
from decimal import Decimal, InvalidOperation
from fractions import Fraction

RTOL = 1e-7


def read(text):
    return _redqueen_decode(ast.literal_eval(text))


def is_equal(actual, expected, atol):
    """Equal in Python's sense."""
    return bool(read(actual) == read(expected))


def is_near(actual, expected, atol):
    """Equal in Python's sense, or within `atol`; where that is 0, floats within a millionth."""
    return are_near(read(actual), read(expected), atol)


def are_near(actual, expected, atol):
    if actual == expected:
        return True
    return are_parts_near(actual, expected, atol or (1e-6 if are_floats(expected) else 0.0))


def are_parts_near(actual, expected, atol):
    if is_number(expected):
        return is_number(actual) and are_numbers_near(actual, expected, atol)
    if isinstance(expected, (list, tuple)):
        return (
            type(actual) is type(expected)
            and len(actual) == len(expected)
            and all(map(are_parts_near, actual, expected, [atol] * len(expected)))
        )
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(are_parts_near(actual[key], expected[key], atol) for key in expected)
        )
    return bool(actual == expected)


def are_numbers_near(actual, expected, atol):
    if actual == expected:
        return True
    if any(
        isinstance(number, float) and not math.isfinite(number) for number in (actual, expected)
    ):
        return bool(actual != actual and expected != expected)  # both NaN
    return bool(atol and abs(actual - expected) <= atol + RTOL * abs(expected))


def is_number(value):
    return isinstance(value, (int, float, complex, Fraction)) and not isinstance(value, bool)


def are_floats(value):
    return isinstance(value, float) or (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(item, float) for item in value)
    )


def has_same_elements(actual, expected, atol):
    """Equal in any order and container."""
    actual, expected = read(actual), read(expected)
    if not all(isinstance(value, (list, tuple, set)) for value in (actual, expected)):
        return False
    try:
        return set(actual) == set(expected)
    except TypeError:  # unhashable items
        ours, theirs = list(actual), list(expected)
        return all(item in theirs for item in ours) and all(item in ours for item in theirs)


def is_as_present(actual, expected, atol):
    """For functions that say yes with an object, such as a match: only its presence counts."""
    ours, theirs = read(actual), read(expected)
    return (ours is not None and ours is not False) == (theirs is not None and theirs is not False)


def is_root(actual, coefficients, atol):
    """Of the polynomial with these coefficients, from the constant up."""
    value = read(actual)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    x = float(value)  # powers of a huge integer would take forever
    terms = (coefficient * x**power for power, coefficient in enumerate(read(coefficients)))
    return bool(abs(sum(terms)) <= atol)


def is_same_json(actual, expected, atol):
    value = read(actual)
    value = list(value) if isinstance(value, tuple) else value  # JSON has no tuples
    return are_near(value, json.loads(expected), 0.0)


def is_same_output(actual, expected, atol):
    """Line by line, without white space at the ends; lines of numbers by their values."""
    ours = ast.literal_eval(actual).strip().split("\n")
    theirs = expected.strip().split("\n")
    return len(ours) == len(theirs) and all(map(is_same_line, ours, theirs))


def is_same_line(line, expected):
    if line.strip() == expected.strip():
        return True
    try:
        return [Decimal(word) for word in line.split()] == [
            Decimal(word) for word in expected.split()
        ]
    except InvalidOperation:
        return False


RULES = {
    "equal": is_equal,
    "near": is_near,
    "any order": has_same_elements,
    "presence": is_as_present,
    "root": is_root,
    "json": is_same_json,
    "output": is_same_output,
}


def main():
    rule, atol, pairs = json.load(sys.stdin)
    print("yes" if all(RULES[rule](*pair, atol) for pair in pairs) else "no")


if __name__ == "__main__":
    main()
