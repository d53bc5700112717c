"""Some scorers of reasoning-gym evaluate an answer as Python, by themselves or through sympy.

Behind the walls that harms nobody, but whoever runs code there can say that it is correct, and some
functions of sympy print, evaluate a text, or solve what was asked. So in the process that scores,
only formulas and literals are evaluated, with the names that are listed here.
"""

import ast
import builtins
from collections.abc import Collection, Mapping
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
_CONSTANTS = (int, float, complex, str, type(None))
_BUILTINS = frozenset(["abs", "complex", "float", "int", "max", "min", "pow", "round", "sum"])
_FUNCTIONS = _BUILTINS | frozenset(
    """
    Float Integer Rational Symbol
    Abs Max Min Mod Pow cbrt ceiling exp factorial factorial2 floor ln log root sign sqrt
    acos acot acsc asec asin atan atan2 cos cot csc sec sin tan
    acosh acoth acsch asech asinh atanh cosh coth csch sech sinh tanh
    Chi Ci Ei LambertW Shi Si binomial erf erfc erfi gamma
    """.split()
)
"""Nothing that integrates, expands or simplifies: the question itself would be an answer."""
_NUMBERS = frozenset(["E", "I", "nan", "oo", "pi", "zoo"])
_SYMPY = "from sympy import *"
"""What sympy's parser executes to have its own names."""
_eval, _exec = builtins.eval, builtins.exec


def guard_evaluation() -> None:
    """From here on, in this process."""
    vars(builtins).update(eval=_guarded_eval, exec=_guarded_exec)


def is_formula(source: str, variables: Collection[str] = ()) -> bool:
    """Whether it has numbers, texts, containers, operators, these variables, and listed functions
    that are called: nothing that leads from a value into the interpreter."""
    try:
        nodes = list(ast.walk(ast.parse(source.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError):
        return False
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return all(isinstance(node, _NODES) and _is_open(node, called, variables) for node in nodes)


def _is_open(node: ast.AST, called: set[int], variables: Collection[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in (_FUNCTIONS if id(node) in called else {*_NUMBERS, *variables})
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name)
    return not isinstance(node, ast.Constant) or isinstance(node.value, _CONSTANTS)


def _guarded_eval(
    source: Any,
    names: Mapping[str, Any] | None = None,
    variables: Mapping[str, Any] | None = None,
    /,
) -> Any:
    """Where no names are handed over, those of the caller are not seen either."""
    names, variables = names or {}, variables or {}
    if not isinstance(source, str) or not is_formula(source, variables):
        raise ValueError("not a formula")
    own = {name: getattr(builtins, name) for name in _BUILTINS}
    given = {name: names[name] for name in _FUNCTIONS | _NUMBERS if name in names}
    return _eval(source.strip(), {"__builtins__": {}, **own, **given}, variables)


def _guarded_exec(source: Any, *spaces: Any, **named: Any) -> None:
    if source != _SYMPY:
        raise ValueError("not a formula")
    _exec(source, *spaces, **named)
