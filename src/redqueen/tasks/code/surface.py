"""What code problems look like: types of answers and constants, names, and the usual shortcuts.

Programs are looked at by their tokens, not parsed: they are a model's text.
"""

import re
from random import Random

from redqueen.records import Problem
from redqueen.tasks.surface import describe_surface

_TOKEN = re.compile(
    r"""(?P<text>'[^'\n]*'|"[^"\n]*")|(?P<number>\b\d[\w.]*)|(?P<name>[A-Za-z_]\w*)|#.*"""
)
_FIRST_ARGUMENT = re.compile(r"^def f\(\s*(\w+)", re.MULTILINE)
_TYPES = {
    "'": "str", '"': "str", "[": "list", "(": "tuple", "{": "dict or set",
    "T": "bool", "F": "bool", "N": "None",
}  # fmt: skip
_LEAST_CHARS = 8
"""A shorter line of a program stands in any message."""


def literal_type(text: str) -> str:
    """The type of a canonical literal."""
    return _TYPES.get(text[:1], "float" if re.search(r"[.einf]", text) else "int")


def code_surface(
    problem: Problem, given: tuple[tuple[str, str], ...], answer: str
) -> dict[str, float | str]:
    code = problem.payload
    found = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(code.program)]
    constants = [kind for kind, _ in found if kind in ("text", "number")]
    first = _FIRST_ARGUMENT.search(code.program)
    return {
        **describe_surface(given, answer),
        "answer_type": literal_type(answer),
        "answer_echo": float(problem.gold[0] == code.inputs[0]),
        "names": len({text for kind, text in found if kind == "name"}),
        "constants": len(constants),
        "constant_texts": constants.count("text") / len(constants) if constants else 0.0,
        "first_argument": first[1][:40] if first else "",
    }


def shuffle_lines(program: str, rng: Random) -> str:
    """The program with the lines below its first one in another order: what it computes cannot be
    read from it."""
    first, *rest = program.splitlines()
    return "\n".join([first, *rng.sample(rest, len(rest))]) + "\n"


def tells_program(message: str, program: str) -> bool:
    """Whether a message has a line of the program that it is to give no more than a hint of."""
    lines = (line.strip().removeprefix("return ") for line in program.splitlines()[1:])
    return any(len(line) >= _LEAST_CHARS and line in message for line in lines)
