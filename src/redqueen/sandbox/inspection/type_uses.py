"""Where a program may name `type`: called with one value, compared, asked for with `isinstance`, in
an annotation, or as a variable of a function of its own.

Anywhere else it is a value, which goes on to make classes with attributes that are named at run
time. Not seen: `type` where it is found at run time, as the class of a class.
"""

import ast
from collections.abc import Iterable, Sequence

from redqueen.sandbox.inspection.complexity import bound_name

TYPE = "type"
_ASK_CLASSES = ("isinstance", "issubclass")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_IN_ANNOTATIONS = (
    *(ast.Name, ast.Attribute, ast.Load, ast.Subscript, ast.Tuple, ast.List, ast.Constant),
    *(ast.BinOp, ast.BitOr),
)


def find_uses(nodes: list[ast.AST]) -> set[int]:
    """The identities of the nodes where it may stand. `nodes` are those of the module, which is the
    first."""
    if not any(isinstance(node, ast.Name) and node.id == TYPE for node in nodes):
        return set()
    own = {name for node in nodes for name in (bound_name(node), *_names(node)) if name}
    found = {id(use) for node in nodes for use in _uses(node, own)}
    return found | _find_variables(nodes[0]) if TYPE in own else found


def asks_class(node: ast.AST) -> bool:
    """Whether it is `type` with one value."""
    return (
        isinstance(node, ast.Call)
        and _is_type(node.func)
        and len(node.args) == 1
        and not isinstance(node.args[0], ast.Starred)
        and not node.keywords
    )


def _is_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == TYPE


def _names(node: ast.AST) -> list[str | None]:
    """Of a function, a class, or what is imported."""
    return [getattr(node, "name", None), getattr(node, "asname", None)]


def _uses(node: ast.AST, own: set[str]) -> Iterable[ast.AST]:
    if isinstance(node, ast.Call):
        if asks_class(node):
            return [node.func]
        if isinstance(node.func, ast.Name) and node.func.id in {*_ASK_CLASSES} - own:
            return [one for argument in node.args[1:] for one in _elements(argument)]
    elif isinstance(node, ast.Compare):
        return _comparands(node)
    elif isinstance(node, ast.MatchClass):
        return [node.cls]
    elif isinstance(node, ast.arg):
        return _in_annotation(node.annotation, own)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return _in_annotation(node.returns, own)
    return []


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _comparands(node: ast.Compare) -> list[ast.expr]:
    """Where no method of the program's is told what the other side is."""
    sides = [node.left, *node.comparators]
    identical = all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
    equal = all(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
    of_types = all(_is_type(side) or asks_class(side) for side in sides)
    return sides if identical or (equal and of_types) else []


def _in_annotation(annotation: ast.expr | None, own: set[str]) -> list[ast.AST]:
    """Of names that are not the program's: its own classes may be told what they are indexed by."""
    nodes = [] if annotation is None else list(ast.walk(annotation))
    others = {node.id for node in nodes if isinstance(node, ast.Name) and node.id != TYPE}
    plain = all(isinstance(node, _IN_ANNOTATIONS) for node in nodes)
    return nodes if plain and own.isdisjoint(others) else []


# variables


def _find_variables(module: ast.AST) -> set[int]:
    """The identities of names that stand for variables of functions, where `type` is one."""
    found: set[int] = set()
    waiting = [(module, False)]
    while waiting:
        node, own = waiting.pop()
        if isinstance(node, ast.Name) and own:
            found.add(id(node))
        inside, inner = _scope(node, own)
        here = {id(child) for child in inside}
        waiting += [
            (child, inner if id(child) in here else own) for child in ast.iter_child_nodes(node)
        ]
    return found


def _scope(node: ast.AST, own: bool) -> tuple[list[ast.AST], bool]:
    """What a node has in a scope of its own, and whether `type` is a variable there, as `own` says
    of the scope around it. Defaults and decorators are not inside."""
    if isinstance(node, _FUNCTIONS):
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
        if TYPE in _arguments(node.args):
            return body, True
        bound = _binds(body)
        return body, own if bound is None else bound
    if isinstance(node, ast.ClassDef):  # what its body has not bound yet comes from the builtins
        return [*node.body], False
    if isinstance(node, _COMPREHENSIONS):
        told = any(_is_type(one) for part in node.generators for one in ast.walk(part.iter))
        bound = _binds([part.target for part in node.generators])
        return [*ast.iter_child_nodes(node)], own or (bound is True and not told)
    return [], own


def _arguments(arguments: ast.arguments) -> set[str]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    rest = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return {argument.arg for argument in (*named, *rest)}


def _binds(nodes: Sequence[ast.AST]) -> bool | None:
    """Whether `type` is a variable of the scope that has these; None where nothing says so."""
    bound: bool | None = None
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global) and TYPE in node.names:
            return False
        bound = bound or bound_name(node) == TYPE or None
        if not isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return bound
