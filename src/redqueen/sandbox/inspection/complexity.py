"""How complex a program is: AST depth, cyclomatic complexity, lines and variables.

Cyclomatic complexity follows radon's counting rules (the tests compare them), since that is what
the field reports. Executed steps are not here: they need a run, and the sandbox counts them.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Complexity:
    ast_depth: int
    """Longest path from the module to a leaf of the syntax tree."""
    cyclomatic: int
    """One plus the number of decision points, over the whole program."""
    loc: int
    """Source lines that are neither blank nor only a comment."""
    variables: int
    """Distinct names the program binds: arguments, assignments, loop and comprehension targets."""


def measure(tree: ast.Module, source: str) -> Complexity:
    survey = _Survey()
    survey.visit(tree, 1, counted=True)
    return Complexity(
        ast_depth=survey.depth,
        cyclomatic=1 + survey.decisions,
        loc=sum(
            1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#")
        ),
        variables=len(survey.names),
    )


@dataclass(slots=True)
class _Survey:
    """What one walk over the tree collects."""

    depth: int = 0
    decisions: int = 0
    names: set[str] = field(default_factory=set)

    def visit(self, node: ast.AST, depth: int, counted: bool, asserted: bool = False) -> None:
        """As in radon, decisions inside the test of an assert are not counted beside the assert
        itself, and decorators and defaults are not counted at all."""
        kind = type(node)
        self.depth = max(self.depth, depth)
        name = bound_name(node)
        if name is not None:
            self.names.add(name)
        if counted and kind in _DECISIONS and not asserted:
            self.decisions += _DECISIONS[kind](node)
        body = node.body if kind in _DEFINITIONS else None  # type: ignore[attr-defined]
        asserted = asserted or kind is ast.Assert
        for child in ast.iter_child_nodes(node):
            self.visit(child, depth + 1, counted and (body is None or child in body), asserted)


# Looked up by exact type, which is faster than isinstance: this runs in every child that verifies a
# proposal.
_DEFINITIONS = {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef}
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
_BINDERS: dict[type, Callable[[Any], str | None]] = {
    ast.Name: lambda node: node.id if type(node.ctx) is ast.Store else None,
    ast.arg: lambda node: node.arg,
    ast.ExceptHandler: lambda node: node.name,
    ast.MatchAs: lambda node: node.name,
    ast.MatchStar: lambda node: node.name,
}


def bound_name(node: ast.AST) -> str | None:
    """The variable that this node binds; functions, classes and imports are not variables."""
    binder = _BINDERS.get(type(node))
    return None if binder is None else binder(node)


def _is_wildcard(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
