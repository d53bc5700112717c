"""Countdown and 24: calculations with given numbers, each used once.

Their scorers find the numbers with a pattern that does not see `0x1f4`, `5_00` or `5e2`, the one of
24 does not ask which numbers were given, and both round. So an answer is read here first: whole
decimal numbers, `+ - * /` and brackets, worked out exactly.
"""

import ast
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

TARGETS = {"countdown": None, "puzzle24": 24}
"""What is to be made; None: an entry says."""
_CALCULATION = re.compile(r"[0-9+\-*/() ]+")


def makes_target(name: str, answer: str, metadata: Mapping[str, Any]) -> bool:
    """Whether it uses exactly the numbers of this entry to make the target."""
    if not _CALCULATION.fullmatch(answer.strip()):
        return False
    used: list[int] = []
    try:
        value = _work_out(ast.parse(answer.strip(), mode="eval").body, used)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return False
    target = TARGETS[name] or metadata["target"]
    return value == target and sorted(used) == sorted(metadata["numbers"])


def _work_out(node: ast.expr, used: list[int]) -> Fraction:
    match node:
        case ast.Constant(value=int(number)):
            used.append(number)
            return Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_work_out(operand, used)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _work_out(left, used) + _work_out(right, used)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _work_out(left, used) - _work_out(right, used)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _work_out(left, used) * _work_out(right, used)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _work_out(left, used) / _work_out(right, used)
    raise ValueError("not a calculation")
