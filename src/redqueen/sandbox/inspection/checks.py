"""Static checks: cheap filters that reject a program before it runs, each with a reason that is
counted.

They save the cost of a run, and keep programs out of the archive that depend on more than their
input: without modules as values, private attributes and attributes that are named at run time, a
program has its arguments and the public functions of a few modules. They are not a wall: what they
miss is caught by the sandbox, and by the control that runs beside every answer.
"""

import ast
import re
from collections.abc import Iterable

from redqueen.config.modules import ALLOWED_MODULES
from redqueen.sandbox.inspection.complexity import bound_name
from redqueen.sandbox.inspection.imports import Forbidden, ImportedModules
from redqueen.sandbox.inspection.type_uses import TYPE, asks_class, find_uses

FORBIDDEN_NAMES = frozenset(
    """
    __builtins__ __import__ breakpoint compile eval exec exit globals hash id input locals open
    print quit vars
    """.split()
)
"""Builtins whose result depends on the process, that reach beyond the program's text, or that only
write output."""

_NEVER_OWN = frozenset(
    "__builtins__ __import__ breakpoint compile eval exec globals locals".split()
)
"""Of these, what no honest program calls a variable of its own."""

FORBIDDEN_ATTRIBUTES = frozenset(
    """
    __annotations__ __bases__ __builtins__ __class__ __closure__ __code__ __dict__ __file__
    __getattribute__ __globals__ __hash__ __loader__ __match_args__ __mro__ __self__ __sizeof__
    __spec__ __subclasses__ __traceback__ __wrapped__ _getframe _urandom
    CodeType EnumMeta EnumType Formatter ForwardRef get_field get_type_hints make_dataclass
    new_class prepare_class update_wrapper
    ag_code ag_frame co_code co_consts co_filename cr_code cr_frame f_back f_builtins f_code
    f_globals f_lineno f_locals f_trace gi_code gi_frame tb_frame tb_lineno tb_next
    """.split()
)
"""Attributes that lead from a value into the interpreter, and functions that do."""

PROTOCOLS = frozenset(
    """
    __abs__ __add__ __aenter__ __aexit__ __aiter__ __and__ __anext__ __await__ __bool__ __bytes__
    __call__ __ceil__ __complex__ __contains__ __copy__ __deepcopy__ __delattr__ __delitem__
    __divmod__ __doc__ __enter__ __eq__ __exit__ __float__ __floor__ __floordiv__ __format__ __ge__
    __getitem__ __gt__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__
    __index__ __init__ __init_subclass__ __int__ __invert__ __ior__ __ipow__ __irshift__ __isub__
    __iter__ __itruediv__ __ixor__ __le__ __len__ __length_hint__ __lshift__ __lt__ __matmul__
    __members__ __missing__ __mod__ __mul__ __name__ __ne__ __neg__ __new__ __next__ __or__ __pos__
    __post_init__ __pow__ __qualname__ __radd__ __rand__ __rdivmod__ __repr__ __reversed__
    __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __round__ __rpow__ __rrshift__
    __rshift__ __rsub__ __rtruediv__ __rxor__ __setattr__ __setitem__ __str__ __sub__ __truediv__
    __trunc__ __xor__
    _asdict _fields _make _replace
    """.split()
)
"""Attributes with a leading underscore that honest programs use: special methods, and those of
named tuples. Others must be the program's own."""

_READERS = {
    **dict.fromkeys(("delattr", "getattr", "hasattr", "setattr"), slice(1, 2)),
    "attrgetter": slice(None),
    "methodcaller": slice(1),
    "wraps": slice(1, None),
}
"""Functions that are told an attribute by name, and where among their arguments."""
_HOOKS = frozenset(
    """
    __class__ __getattribute__ __getstate__ __instancecheck__ __prepare__ __reduce__
    __reduce_ex__ __setstate__ __subclasscheck__ __subclasshook__
    """.split()
)
"""Methods through which others set attributes by names that are made at run time, or take a value
for what it is not. No program may have them, however it binds the name."""
_METACLASSES = frozenset(["ABCMeta", TYPE])
_OPEN_NAMES = frozenset(["__debug__", "__doc__", "__name__"])
_READ_FROM_CLASSES = frozenset(["__annotations__", "__match_args__"])
"""Names in it are evaluated, or read as attributes."""
_FIELD = re.compile(r"\{[^{}]*\._")
"""A replacement field of `str.format` that reads a private attribute."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def check(
    tree: ast.Module, allowed_modules: Iterable[str] = ALLOWED_MODULES, entry: str = "f"
) -> str | None:
    """The reason to reject the program, as `word: detail`, or None."""
    count = sum(isinstance(node, ast.FunctionDef) and node.name == entry for node in tree.body)
    if count != 1:
        return f"entry: {count} functions named {entry} at the top level, expected one"
    nodes = list(ast.walk(tree))
    try:
        checks = _Checks(nodes, entry)
        modules = ImportedModules(nodes, frozenset(allowed_modules))
        for node in nodes:
            modules.check(node)
            checks.check(node)
    except Forbidden as error:
        return str(error)
    return None


class _Checks:
    """Names and attributes."""

    def __init__(self, nodes: list[ast.AST], entry: str) -> None:
        self.entry = entry
        variables = {bound_name(node) for node in nodes}
        defined = {node.name for node in nodes if isinstance(node, _DEFINITIONS)}
        renamed = {node.asname for node in nodes if isinstance(node, ast.alias)}
        rest = {node.rest for node in nodes if isinstance(node, ast.MatchMapping)}
        for name in sorted(_HOOKS & (variables | defined | renamed | rest)):
            raise Forbidden("forbidden_name", name)
        stored = {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        # an argument called `input` is not the builtin, wherever it is bound
        self.forbidden = FORBIDDEN_NAMES - (variables - _NEVER_OWN)
        self.own = variables | defined | stored
        self.readers = {
            id(node.func)
            for node in nodes
            if isinstance(node, ast.Call) and self._names_attributes(node)
        }
        """Where `getattr` and the like are called with the name of an attribute."""
        self.uses_of_type = find_uses(nodes)

    def check(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self._check_name(node)
        elif isinstance(node, ast.Attribute):
            self.check_attribute(node.attr)
            if node.attr in _READERS and id(node) not in self.readers:
                raise Forbidden("forbidden_attribute", f"{node.attr} without the attribute's name")
        elif isinstance(node, ast.MatchClass):
            for name in node.kwd_attrs:
                self.check_attribute(name)
        elif isinstance(node, ast.alias):
            self.check_attribute(node.name.rpartition(".")[2])
            if node.name in _READERS and node.asname:
                raise Forbidden("forbidden_import", f"{node.name} under another name")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._check_text(node.value)
        elif isinstance(node, ast.arg) and node.annotation is not None:
            _check_annotation(node.annotation)
        elif isinstance(node, ast.Call):
            _check_call(node)
        elif isinstance(node, _DEFINITIONS):
            _check_definition(node)
        elif isinstance(node, ast.Global) and self.entry in node.names:
            raise Forbidden("entry", f"{self.entry} is bound a second time")

    def _check_name(self, node: ast.Name) -> None:
        name = node.id
        if not isinstance(node.ctx, ast.Load):
            if name == self.entry:
                raise Forbidden("entry", f"{name} is bound a second time")
            if name in _READ_FROM_CLASSES:
                raise Forbidden("forbidden_name", name)
        elif name in self.forbidden or (
            name.startswith("__") and name not in self.own and name not in _OPEN_NAMES
        ):
            raise Forbidden("forbidden_name", name)
        elif name in _READERS and id(node) not in self.readers:
            raise Forbidden("forbidden_name", f"{name} without the attribute's name")
        elif name == TYPE and id(node) not in self.uses_of_type:
            raise Forbidden("forbidden_name", "type as a value, which makes classes")

    def check_attribute(self, name: str) -> None:
        is_own = name in self.own and not _is_special(name)  # which are the interpreter's
        private = name.startswith("_") and name not in PROTOCOLS and not is_own
        if private or name in FORBIDDEN_ATTRIBUTES:
            raise Forbidden("forbidden_attribute", name)

    def _check_text(self, text: str) -> None:
        """A name may reach its use as a text, and a template reads attributes."""
        if text in FORBIDDEN_ATTRIBUTES or text in _HOOKS:
            raise Forbidden("forbidden_attribute", text)
        if _FIELD.search(text):
            raise Forbidden("forbidden_attribute", f"in the template {text[:40]!r}")

    def _names_attributes(self, call: ast.Call) -> bool:
        """Whether this calls `getattr` or the like with names in so many words. Raises Forbidden if
        one of them may not be read."""
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        if name not in _READERS:
            return False
        for argument in call.args[_READERS[name]]:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                return False
            for part in argument.value.split("."):
                self.check_attribute(part)
        if name == "wraps":  # it copies a few attributes, unless it is told others
            return len(call.args) == 1 and not call.keywords
        return bool(call.args[_READERS[name]])


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _check_call(call: ast.Call) -> None:
    if isinstance(call.func, ast.Name) and call.func.id == TYPE and not asks_class(call):
        raise Forbidden("forbidden_name", "a class whose attributes are named at run time")


def _check_definition(node: ast.stmt) -> None:
    name, bases = getattr(node, "name", ""), getattr(node, "bases", [])
    named = {getattr(base, "id", None) or getattr(base, "attr", None) for base in bases}
    if not named.isdisjoint(_METACLASSES):
        raise Forbidden("forbidden_name", f"{name} is a metaclass")


def _check_annotation(annotation: ast.AST) -> None:
    """`functools.singledispatch` evaluates annotations that are texts."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and "(" in str(node.value):
            raise Forbidden("forbidden_name", f"a call in the annotation {node.value!r}")
