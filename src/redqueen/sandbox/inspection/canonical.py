"""The canonical form of a program: its text with every name it binds replaced by its order of
appearance.

Two programs that differ only in names, layout, comments, docstrings or annotations have the same
form, so that a problem proposed twice counts once. Only names are normalised: `a + b` and `b + a`
remain different programs.
"""

import ast
import itertools

from redqueen.sandbox.inspection.complexity import bound_name

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def canonical_program(tree: ast.Module, entry: str = "f") -> str:
    """The canonical text of a parsed program. Changes the tree: call it last."""
    nodes = list(ast.walk(_WithoutAnnotations().visit(tree)))
    bound = {name for node in nodes if (name := _introduced_name(node)) is not None}
    names = _Names(
        bound - _fixed_names(nodes) - {entry},
        taken={node.id for node in nodes if isinstance(node, ast.Name)},
    )
    for node in nodes:
        names.rename(node)
    return ast.unparse(tree)


def _introduced_name(node: ast.AST) -> str | None:
    """The variable, function or class that this node introduces."""
    return bound_name(node) or (node.name if isinstance(node, _DEFINITIONS) else None)


def _fixed_names(nodes: list[ast.AST]) -> set[str]:
    """Names that are also used where they cannot be renamed: members of classes, keywords of calls,
    imports."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            names |= {
                name
                for inner in node.body
                for part in ast.walk(inner)
                if (name := _introduced_name(part)) is not None
            }
        elif isinstance(node, ast.keyword) and node.arg:
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return names


class _Names:
    """New names in order of first appearance. Attributes, keywords of calls and imports keep their
    names, which have a meaning elsewhere."""

    def __init__(self, bound: set[str], taken: set[str]) -> None:
        self.bound = bound
        self.fresh = (
            name for number in itertools.count() if (name := f"v{number}") not in taken - bound
        )
        self.renamed: dict[str, str] = {}

    def new(self, old: str) -> str:
        if old not in self.bound:
            return old
        if old not in self.renamed:
            self.renamed[old] = next(self.fresh)
        return self.renamed[old]

    def rename(self, node: ast.AST) -> None:
        kind = type(node)
        if kind is ast.Name:
            node.id = self.new(node.id)  # type: ignore[attr-defined]
        elif isinstance(node, ast.arg):
            node.arg, node.annotation = self.new(node.arg), None
        elif isinstance(node, _DEFINITIONS):
            node.name, node.body = self.new(node.name), _without_docstring(node.body)
            if not isinstance(node, ast.ClassDef):
                node.returns = None
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [self.new(name) for name in node.names]
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            node.name = self.new(node.name)


class _WithoutAnnotations(ast.NodeTransformer):
    """Turns annotated assignments into plain ones, except in classes, where annotations can have
    a meaning (dataclasses)."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [
            part if isinstance(part, ast.AnnAssign) else self.visit(part) for part in node.body
        ]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return (
            ast.Pass()
            if node.value is None
            else ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno)
        )


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return body[1:] or [ast.Pass()]
    return body
