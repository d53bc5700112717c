"""How complex a program is: AST depth, cyclomatic complexity, lines, variables and Halstead's
measures.

Cyclomatic complexity and Halstead follow radon's counting rules (the tests compare them), since
that is what the field reports. Executed steps are not here: they need a run, and the sandbox counts
them.
"""

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


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
    survey = _Survey()
    survey.visit(tree, 1, "", counted=True)
    operators, operands = survey.operators, survey.operands
    vocabulary = len(set(operators)) + len(set(operands))
    volume = (len(operators) + len(operands)) * math.log2(vocabulary) if vocabulary else 0.0
    difficulty = len(set(operators)) / 2 * len(operands) / len(set(operands)) if operands else 0.0
    return Complexity(
        ast_depth=survey.depth,
        cyclomatic=1 + survey.decisions,
        loc=sum(
            1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#")
        ),
        variables=len(survey.names),
        halstead_volume=round(volume, 3),
        halstead_difficulty=round(difficulty, 3),
        halstead_effort=round(volume * difficulty, 3),
    )


@dataclass(slots=True)
class _Survey:
    """What one walk over the tree collects."""

    depth: int = 0
    decisions: int = 0
    names: set[str] = field(default_factory=set)
    operators: list[str] = field(default_factory=list)
    operands: list[tuple[str, object]] = field(default_factory=list)

    def visit(
        self, node: ast.AST, depth: int, scope: str, counted: bool, asserted: bool = False
    ) -> None:
        """As in radon, what an assert tests decides nothing more than the assert does, and
        decorators and defaults count for nothing."""
        kind = type(node)
        self.depth = max(self.depth, depth)
        name = bound_name(node)
        if name is not None:
            self.names.add(name)
        if counted:
            if kind in _DECISIONS and not asserted:
                self.decisions += _DECISIONS[kind](node)
            if kind in _OPERATIONS:
                operators, operands = _OPERATIONS[kind](node)
                self.operators += [type(operator).__name__ for operator in operators]
                self.operands += [(scope, _operand(operand)) for operand in operands]
        inside = node.body if kind in _DEFINITIONS else None  # type: ignore[attr-defined]
        scope = node.name if kind in _FUNCTIONS else scope  # type: ignore[attr-defined]
        asserted = asserted or kind is ast.Assert
        for child in ast.iter_child_nodes(node):
            self.visit(
                child, depth + 1, scope, counted and (inside is None or child in inside), asserted
            )


# Looked up by exact type, not by isinstance: this runs in every child that verifies a proposal.
_FUNCTIONS = {ast.FunctionDef, ast.AsyncFunctionDef}
_DEFINITIONS = {*_FUNCTIONS, ast.ClassDef}
_DECISIONS: dict[type, Callable[[Any], int]] = {
    ast.If: lambda node: 1,
    ast.IfExp: lambda node: 1,
    ast.Assert: lambda node: 1,
    ast.For: lambda node: 1 + bool(node.orelse),
    ast.AsyncFor: lambda node: 1 + bool(node.orelse),
    ast.While: lambda node: 1 + bool(node.orelse),
    ast.Try: lambda node: len(node.handlers) + bool(node.orelse),
    ast.BoolOp: lambda node: len(node.values) - 1,
    ast.comprehension: lambda node: 1 + len(node.ifs),
    ast.Match: lambda node: len(node.cases) - any(_is_wildcard(case) for case in node.cases),
}
_OPERATIONS: dict[type, Callable[[Any], tuple[list[ast.AST], list[ast.expr]]]] = {
    ast.BinOp: lambda node: ([node.op], [node.left, node.right]),
    ast.UnaryOp: lambda node: ([node.op], [node.operand]),
    ast.BoolOp: lambda node: ([node.op], node.values),
    ast.AugAssign: lambda node: ([node.op], [node.target, node.value]),
    ast.Compare: lambda node: (node.ops, [*node.comparators, node.left]),
}
_BINDERS: dict[type, Callable[[Any], str | None]] = {
    ast.Name: lambda node: node.id if type(node.ctx) is ast.Store else None,
    ast.arg: lambda node: node.arg,
    ast.ExceptHandler: lambda node: node.name,
    ast.MatchAs: lambda node: node.name,
    ast.MatchStar: lambda node: node.name,
}


def bound_name(node: ast.AST) -> str | None:
    """The variable that this node binds; functions, classes and imports are no variables."""
    binder = _BINDERS.get(type(node))
    return None if binder is None else binder(node)


def _is_wildcard(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def _operand(node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):
        return node.value
    return id(node)  # a compound operand is like no other
