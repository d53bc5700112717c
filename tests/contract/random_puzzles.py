"""Random texts of puzzles: well-formed, mutated and hostile. And a reading of the language that
shares nothing with the solver, to find all solutions of small ones."""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from random import Random
from typing import Any

from redqueen.tasks.logic.generator import random_puzzle
from redqueen.tasks.logic.language import write_puzzle

WORDS = "red green blue v0 v1 v2 white a1 not and count".split()
NAMES = "a b c d e f x1 long_variable_16 v3 v9 Not".split()

PLAIN: dict[str, Callable[[list[Any]], Any]] = {
    "=": lambda given: given[0] == given[1],
    "==": lambda given: given[0] == given[1],
    "!=": lambda given: given[0] != given[1],
    "<>": lambda given: given[0] != given[1],
    "<": lambda given: given[0] < given[1],
    "<=": lambda given: given[0] <= given[1],
    ">": lambda given: given[0] > given[1],
    ">=": lambda given: given[0] >= given[1],
    "all_different": lambda given: all(
        one != two for place, one in enumerate(given) for two in given[:place]
    ),
    "not": lambda given: not given[0],
    "and": lambda given: False not in given,
    "or": lambda given: True in given,
    "=>": lambda given: given[1] if given[0] else True,
    "+": sum,
    "-": lambda given: given[0] - given[1],
    "*": prod,
    "%": lambda given: given[0] - given[1] * (given[0] // given[1]),
    "abs": lambda given: max(given[0], -given[0]),
    "count": lambda given: given.count(True),
}


def value_of(expression: Any, assignment: Mapping[str, Any]) -> Any:
    if isinstance(expression, list | tuple):
        return PLAIN[expression[0]]([value_of(part, assignment) for part in expression[1:]])
    return assignment.get(expression, expression) if isinstance(expression, str) else expression


def all_solutions(
    variables: Mapping[str, tuple[Any, ...]], constraints: tuple[Any, ...]
) -> Iterator[dict[str, Any]]:
    for values in product(*variables.values()):
        assignment = dict(zip(variables, values, strict=True))
        if all(value_of(one, assignment) for one in constraints):
            yield assignment


def well_formed(rng: Random) -> dict[str, Any]:
    """Constraints of any operators, all of which a drawn assignment satisfies: often it is the only
    one that does."""
    names = rng.sample(NAMES, rng.randint(2, 5))
    words = rng.sample(WORDS, 4)
    domains: dict[str, list[Any]] = {}
    for name in names:
        first = rng.choice([-3, 0, 1, 1, 1, 995])
        numbers = list(range(first, first + rng.randint(2, 4)))
        domains[name] = rng.sample(words, rng.randint(2, 4)) if rng.random() < 0.3 else numbers
    left = list(all_solutions({name: tuple(domain) for name, domain in domains.items()}, ()))
    solution, most = rng.choice(left), rng.choice([2, 8, 30, 30])
    constraints: list[Any] = []
    while len(left) > 1 and len(constraints) < most:
        one = _expression(rng, "truth", domains, 0)
        if not any(f'"{name}"' in json.dumps(one) for name in names) and rng.random() < 0.99:
            continue  # a constraint without a variable is malformed
        one = one if value_of(one, solution) or rng.random() < 0.01 else ["not", one]
        kept = [other for other in left if value_of(one, other)]
        if len(kept) < len(left) or rng.random() < 0.1:
            constraints.append(one)
            left = kept
    return {"variables": domains, "constraints": constraints}


def _expression(rng: Random, kind: str, domains: dict[str, list[Any]], depth: int) -> Any:
    def parts(kind: str, count: int) -> list[Any]:
        return [_expression(rng, kind, domains, depth + 1) for _ in range(count)]

    if kind == "text":
        texts = [name for name, domain in domains.items() if isinstance(domain[0], str)]
        values = [v for domain in domains.values() for v in domain if isinstance(v, str)]
        return rng.choice([*texts * 4, *values])
    if kind == "number":
        numbers = [name for name, domain in domains.items() if isinstance(domain[0], int)]
        if depth > 4 or rng.random() < 0.6:
            return rng.choice([*numbers, *numbers, *numbers, rng.randint(-4, 9)])
        name, count = rng.choice([("+", 2), ("+", 3), ("-", 2), ("*", 2), ("abs", 1), ("%", 1)])
        return [name, *parts("number", count), *([rng.randint(1, 4)] if name == "%" else [])]
    if depth < 2 and rng.random() < 0.4:
        name, count = rng.choice([("not", 1), ("and", 2), ("or", 2), ("or", 3), ("=>", 2)])
        return [name, *parts("truth", count)]
    has_text = any(isinstance(domain[0], str) for domain in domains.values())
    if has_text and rng.random() < 0.4:
        name = rng.choice(["=", "!=", "all_different"])
        return [name, *parts("text", 3 if name == "all_different" else 2)]
    if depth < 3 and rng.random() < 0.2:
        return [rng.choice(["=", "<", ">="]), ["count", *parts("truth", 2)], rng.randint(0, 2)]
    name = rng.choice("= = != < <= > >= all_different == <>".split())
    return [name, *parts("number", 3 if name == "all_different" else 2)]


def _nested(rng: Random) -> Any:
    depth = rng.choice([7, 8, 9, 100, 5000])
    body = '["=", "a", 1]'
    wrap = rng.choice(['["not", ', '["and", ["=", "a", 1], ', "[", '{"a": '])
    close = "}" if wrap[0] == "{" else "]"
    text = wrap * depth + body + close * depth
    return '{"variables": {"a": "1..2"}, "constraints": [' + text + "]}"


def _sums(rng: Random) -> Any:
    """As much work as the language allows."""
    names = [f"n{place}" for place in range(16)]
    some = [rng.sample(names, rng.randint(3, 9)) for _ in range(rng.randint(10, 30))]
    sums = [["=", ["%", ["+", *one], rng.randint(2, 9)], rng.randint(0, 3)] for one in some]
    return {"variables": dict.fromkeys(names, rng.choice(["1..20", "0..6"])), "constraints": sums}


def _pigeons(rng: Random) -> Any:
    names = [f"n{place}" for place in range(rng.randint(6, 16))]
    last = len(names) - rng.randint(0, 1)
    different = ["all_different", *names]
    return {"variables": dict.fromkeys(names, f"1..{last}"), "constraints": [different]}


def _products(rng: Random) -> Any:
    part: Any = "a"
    for _ in range(rng.choice([2, 6])):
        part = ["*", part, part, *([part, part] if rng.random() < 0.3 else [99_999])]
    compared = ["<", part, rng.choice([1, 99_999, -99_999, 10**30])]
    return {"variables": {"a": "-3..9", "b": "1..2"}, "constraints": [compared, ["=", "b", 1]]}


def _constant(rng: Random) -> Any:
    number = rng.choice(["9" * 5000, "1e5", "1e999", "NaN", "-Infinity", "99999", "100000", "1.0"])
    text = rng.choice(['[["=", "a", %s]]', '[["%%", "a", %s]]', '[["=", ["%%", "a", 3], %s]]'])
    return '{"variables": {"a": "1..3"}, "constraints": ' + text % number + "}"


def _domain(rng: Random) -> Any:
    domain = rng.choice(
        ["1..999999999999", "-999..999", "5..1", "1..20", "1..21", "..", "1...3", "", "é..3", "٣..٤", [], [1, 1], [True],
         [1, "red"], ["b", "c"], [None], [[1]], list(range(2000)), ["w" * 17], ["é"], ["\0"], ["\ud800"], "1..2\n", ["1"], {"a": 1}, 7, None]
    )  # fmt: skip
    return {"variables": {"a": domain, "b": "1..2"}, "constraints": [["=", "b", 1], ["!=", "a", 2]]}


def _name(rng: Random) -> Any:
    name = rng.choice(["", "a" * 16, "a" * 17, "é", "a b", "__class__", "a\0", "\ud800", "red", "=", "not", "1", "{0}", "%s", "a" * 9000])  # fmt: skip
    constraints = [["=", name, 1], ["=", "c", rng.choice(["red", "c", name])]]
    return {"variables": {name: "1..2", "c": ["red", "not"]}, "constraints": constraints}


def _shape(rng: Random) -> Any:
    return rng.choice(
        ["", "null", "[]", "{}", "\0", '{"variables": {"a": "1..2"}}', '{"variables": [], "constraints": {}}', "{'variables': {}}",
         '{"variables": {"a": "1..2", "a": "1..3"}, "constraints": [["=", "a", 1]]}', '{"variables": {"a": "1..2"}, "constraints": []}', "\ud800", "\u2028",
         json.dumps({"variables": {"a": "1..2"}, "constraints": [["=", "a", 1]] * 41}), "<answer>", "</answer>", "```", "</think>"]
    )  # fmt: skip


HOSTILE: tuple[Callable[[Random], Any], ...] = (_nested, _sums, _pigeons, _products, _constant, _domain, _name, _shape)  # fmt: skip
_JUNK: tuple[Any, ...] = (None, True, 1.5, 10**6, -1, "a", "red", [], {}, ["eval", "a"], ["=", "a"], ["%", "a", 0], "1..3", "\0", [[]])  # fmt: skip


def mutated(rng: Random) -> str:
    fields = well_formed(rng)
    if rng.random() < 0.5:
        return json.dumps(_replace_part(fields, rng))
    text = list(json.dumps(fields))
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(text))
        cut = rng.choice([0, 1, 1, 5])
        text[place : place + cut] = rng.choice(["", '"', "[", "]", ",", "9", "é", "\0", "a", "{"])
    return "".join(text)


def _replace_part(part: Any, rng: Random) -> Any:
    if not isinstance(part, list | dict) or not part or rng.random() < 0.1:
        return rng.choice(_JUNK)
    copy: Any = part.copy()
    place = rng.choice(list(copy)) if isinstance(copy, dict) else rng.randrange(len(copy))
    copy[place] = _replace_part(copy[place], rng)
    return copy


def puzzle_text(rng: Random) -> tuple[str, str]:
    """What sort of case it is, and the text."""
    draw = rng.random()
    if draw < 0.5:
        return "well-formed", json.dumps(well_formed(rng))
    if draw < 0.55:
        return "generated", write_puzzle(random_puzzle(rng, rng.randint(1, 4)))
    if draw < 0.75:
        return "mutated", mutated(rng)
    made = rng.choice(HOSTILE)(rng)
    return "hostile", made if isinstance(made, str) else json.dumps(made)
