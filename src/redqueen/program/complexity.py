"""How complex a program is: AST depth, cyclomatic complexity, lines, variables and Halstead's measures.

Cyclomatic complexity and Halstead follow radon's counting rules (the tests compare them), since that is what the field reports.
Executed steps are not here: they need a run, and the sandbox counts them.
"""

import ast
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Complexity:
    ast_depth: int
    """Longest path from the module to a leaf of the syntax tree."""
    cyclomatic: int
    """One plus the decision points, over the whole program."""
    loc: int
    """Source lines that are neither blank nor a comment alone."""
    variables: int
    """Distinct names the program binds: arguments, assignments, loop and comprehension targets."""
    halstead_volume: float
    halstead_difficulty: float
    halstead_effort: float


def measure(tree: ast.Module, source: str) -> Complexity:
    volume, difficulty = _halstead(tree)
    return Complexity(
        ast_depth=_depth(tree),
        cyclomatic=1 + _decisions(tree.body),
        loc=sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#")),
        variables=len(set(bound_names(tree))),
        halstead_volume=round(volume, 3),
        halstead_difficulty=round(difficulty, 3),
        halstead_effort=round(volume * difficulty, 3),
    )


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Every variable name the program binds, in source order, repeats included; functions, classes and imports are no variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def _depth(tree: ast.AST) -> int:
    deepest, level = 0, [tree]
    while level:
        deepest += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return deepest


def _decisions(nodes: Iterable[ast.AST]) -> int:
    """Decision points below these nodes, nested functions included. As in radon, what an assert tests is not looked into, nor are
    decorators and defaults."""
    total = 0
    for node in nodes:
        if isinstance(node, Function | ast.ClassDef):
            total += _decisions(node.body)
        elif isinstance(node, ast.Assert):
            total += 1
        else:
            total += _decision(node) + _decisions(ast.iter_child_nodes(node))
    return total


def _decision(node: ast.AST) -> int:
    if isinstance(node, ast.If | ast.IfExp):
        return 1
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return 1 + bool(node.orelse)
    if isinstance(node, ast.Try):
        return len(node.handlers) + bool(node.orelse)
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.Match):
        wildcard = any(isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None for case in node.cases)
        return len(node.cases) - wildcard
    return 0


def _halstead(tree: ast.Module) -> tuple[float, float]:
    """Volume and difficulty from the operators of expressions and their operands."""
    operators: list[str] = []
    operands: list[tuple[str, object]] = []
    for scope, node in _scoped(tree, ""):
        found_operators, found_operands = _operation(node)
        operators += [type(operator).__name__ for operator in found_operators]
        operands += [(scope, _operand(operand)) for operand in found_operands]
    vocabulary = len(set(operators)) + len(set(operands))
    length = len(operators) + len(operands)
    volume = length * math.log2(vocabulary) if vocabulary else 0.0
    distinct = len(set(operands))
    difficulty = len(set(operators)) / 2 * len(operands) / distinct if distinct else 0.0
    return volume, difficulty


def _scoped(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.AST]]:
    yield scope, node
    children = node.body if isinstance(node, Function) else ast.iter_child_nodes(node)
    inner = node.name if isinstance(node, Function) else scope
    for child in children:
        yield from _scoped(child, inner)


def _operation(node: ast.AST) -> tuple[list[ast.AST], list[ast.expr]]:
    if isinstance(node, ast.BinOp):
        return [node.op], [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.op], [node.operand]
    if isinstance(node, ast.BoolOp):
        return [node.op], list(node.values)
    if isinstance(node, ast.AugAssign):
        return [node.op], [node.target, node.value]
    if isinstance(node, ast.Compare):
        return list(node.ops), [*node.comparators, node.left]
    return [], []


def _operand(node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):
        return node.value
    return id(node)  # a compound operand is like no other
