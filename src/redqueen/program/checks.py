"""Static checks: cheap filters that turn away a program before it is run, each with a reason that is counted.

They save the price of a run and keep obvious chance out of the archive. They are not a wall: what they miss meets the sandbox.
"""

import ast
from collections.abc import Iterable

ALLOWED_MODULES: frozenset[str] = frozenset(
    """
    abc array bisect calendar cmath collections copy dataclasses decimal enum fractions functools heapq itertools json math numbers
    operator re statistics string textwrap types typing unicodedata
    """.split()
)
"""Modules a proposed program may import: they compute, and reach neither files, clocks, chance nor the interpreter's inside."""

CHANCE = frozenset({"id", "hash", "input", "open", "print", "breakpoint", "exec", "eval", "compile", "globals", "locals", "vars", "__import__"})
"""Names of builtins whose result depends on the process, or that reach past the program's own text."""

INSIDE = frozenset({"__class__", "__bases__", "__subclasses__", "__globals__", "__builtins__", "__code__", "__closure__", "__mro__", "__dict__"})
"""Attributes that lead from a value into the interpreter."""


def check(tree: ast.Module, allowed_modules: Iterable[str] = ALLOWED_MODULES, entry: str = "f") -> str | None:
    """The reason to turn the program away, as `word: what`, or None."""
    return _check_entry(tree, entry) or _check_imports(tree, frozenset(allowed_modules)) or _check_names(tree)


def _check_entry(tree: ast.Module, entry: str) -> str | None:
    top_level = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == entry]
    if len(top_level) != 1:
        return f"entry: {len(top_level)} functions named {entry} at the top level, expected one"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and node.id == entry:
            return f"entry: {entry} is bound a second time"
        if isinstance(node, ast.Global) and entry in node.names:
            return f"entry: {entry} is bound a second time"
    return None


def _check_imports(tree: ast.Module, allowed: frozenset[str]) -> str | None:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "."] if not node.level else ["."]
        for name in names:
            if name not in allowed and name.partition(".")[0] not in allowed:
                return f"import: {name[:60]}"
    return None


def _check_names(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in CHANCE and isinstance(node.ctx, ast.Load):
            return f"chance: {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in INSIDE:
            return f"inside: {node.attr}"
    return None
