"""Some scorers of reasoning-gym evaluate an answer as Python, by themselves or through sympy.

Behind the walls that harms nobody, but whoever runs code there can say that it is correct. So in
the process that scores, only formulas and literals are evaluated.
"""

import ast
import builtins
from typing import Any

_NODES = (
    ast.Expression,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.UnaryOp,
    ast.unaryop,
    ast.BinOp,
    ast.operator,
    ast.Compare,
    ast.cmpop,
    ast.BoolOp,
    ast.boolop,
    ast.Call,
    ast.Name,
    ast.Load,
)
_HARMLESS = frozenset(["abs", "complex", "float", "int", "max", "min", "pow", "round", "sum"])
_BUILTINS = frozenset(dir(builtins)) - _HARMLESS
_SYMPY = "from sympy import *"
"""What sympy's parser executes to have its own names."""
_eval, _exec = builtins.eval, builtins.exec


def guard_evaluation() -> None:
    """From here on, in this process."""
    vars(builtins).update(eval=_guarded_eval, exec=_guarded_exec)


def is_formula(source: str) -> bool:
    """Whether it has numbers, texts, containers, operators, names and calls of these, and nothing
    that leads from a value into the interpreter."""
    try:
        nodes = list(ast.walk(ast.parse(source.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return all(isinstance(node, _NODES) and _is_open(node) for node in nodes)


def _is_open(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id[0] != "_" and node.id not in _BUILTINS
    return not isinstance(node, ast.Call) or isinstance(node.func, ast.Name)


def _guarded_eval(source: Any, *spaces: Any, **named: Any) -> Any:
    if not isinstance(source, str) or not is_formula(source):
        raise ValueError("not a formula")
    return _eval(source.strip(), *spaces, **named)


def _guarded_exec(source: Any, *spaces: Any, **named: Any) -> None:
    if source != _SYMPY:
        raise ValueError("not a formula")
    _exec(source, *spaces, **named)
