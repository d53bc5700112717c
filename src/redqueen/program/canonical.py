"""The canonical form of a program: its text with every name it binds replaced by its order of appearance.

Two programs that differ only in names, layout, comments, docstrings or annotations have the same form, so that the same problem
proposed twice is seen as one. Only names are normalised: `a + b` and `b + a` stay two programs.
"""

import ast
import hashlib
from typing import cast


def canonical_program(tree: ast.Module, entry: str = "f") -> str:
    """The canonical text of a parsed program; the tree is not changed."""
    copy = cast(ast.Module, ast.parse(ast.unparse(tree)))
    _Renamer(_bound(copy), keep={entry}).visit(copy)
    return ast.unparse(ast.fix_missing_locations(copy))


def content_key(*parts: str) -> str:
    """A hash of texts in order; the lengths keep ('ab', 'c') and ('a', 'bc') apart."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def _bound(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return names


class _Renamer(ast.NodeTransformer):
    """Renames in order of first appearance. Attributes, keywords of calls and imports keep their names: their meaning is outside."""

    def __init__(self, bound: set[str], keep: set[str]) -> None:
        self.bound = bound - keep
        self.names: dict[str, str] = {}

    def name(self, old: str) -> str:
        return self.names.setdefault(old, f"v{len(self.names)}") if old in self.bound else old

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg, node.annotation = self.name(node.arg), None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name, node.returns = self.name(node.name), None
        node.body = _without_docstring(node.body)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self.name(node.name)
        node.body = _without_docstring(node.body)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.visit(ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno))  # type: ignore[no-any-return]

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = node.name and self.name(node.name)
        return self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.AST:
        node.names = [self.name(name) for name in node.names]
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self.name(name) for name in node.names]
        return node

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        node.name = node.name and self.name(node.name)
        return self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        node.name = node.name and self.name(node.name)
        return node


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body
