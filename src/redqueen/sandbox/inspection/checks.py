"""Static checks: cheap filters that reject a program before it runs, each with a reason that is
counted.

They save the cost of a run and keep obvious nondeterminism out of the archive. They are not a wall:
what they miss is caught by the sandbox.
"""

import ast
from collections.abc import Iterable

from redqueen.config.modules import ALLOWED_MODULES
from redqueen.sandbox.inspection.complexity import bound_name

FORBIDDEN_NAMES = frozenset(
    """
    __builtins__ __import__ breakpoint compile eval exec exit globals hash id input locals open
    print quit vars
    """.split()
)
"""Builtins whose result depends on the process, that reach beyond the program's text, or that only
write output."""

FORBIDDEN_ATTRIBUTES = frozenset(
    """
    __bases__ __builtins__ __class__ __closure__ __code__ __dict__ __globals__ __mro__
    __subclasses__ __traceback__ f_back f_globals
    """.split()
)
"""Attributes that lead from a value into the interpreter."""


def check(
    tree: ast.Module, allowed_modules: Iterable[str] = ALLOWED_MODULES, entry: str = "f"
) -> str | None:
    """The reason to reject the program, as `word: detail`, or None."""
    count = sum(isinstance(node, ast.FunctionDef) and node.name == entry for node in tree.body)
    if count != 1:
        return f"entry: {count} functions named {entry} at the top level, expected one"
    allowed, nodes = frozenset(allowed_modules), list(ast.walk(tree))
    own = {bound_name(node) for node in nodes}  # an argument called `input` is not the builtin
    for node in nodes:
        reason = _check_node(node, allowed, entry, FORBIDDEN_NAMES - own)
        if reason is not None:
            return reason
    return None


def _check_node(
    node: ast.AST, allowed: frozenset[str], entry: str, forbidden: frozenset[str]
) -> str | None:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load):
            return f"forbidden_name: {node.id}" if node.id in forbidden else None
        return f"entry: {entry} is bound a second time" if node.id == entry else None
    if isinstance(node, ast.Attribute):
        return f"forbidden_attribute: {node.attr}" if node.attr in FORBIDDEN_ATTRIBUTES else None
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module if node.module and not node.level else "a relative import"]
    elif isinstance(node, ast.Global) and entry in node.names:
        return f"entry: {entry} is bound a second time"
    else:
        return None
    foreign = [
        name for name in names if name not in allowed and name.partition(".")[0] not in allowed
    ]
    return f"forbidden_import: {foreign[0][:60]}" if foreign else None
