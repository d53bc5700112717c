"""What a program may do with modules: import allowed ones, and use their public attributes.

A module is never a value: it cannot be passed on, stored or changed, so that every module that a
program reaches is reached by a chain of names that can be followed here. Modules import others, and
`re.enum.sys` is as good as `sys`.
"""

import ast
import importlib
import types


class Forbidden(ValueError):
    """A reason to reject a program, as `word: detail`."""

    def __init__(self, word: str, detail: str) -> None:
        super().__init__(f"{word}: {detail[:60]}")


class ImportedModules:
    """The modules of a program, by the names it gives them. Raises Forbidden."""

    def __init__(self, nodes: list[ast.AST], allowed: frozenset[str]) -> None:
        self.allowed = allowed
        self.modules: dict[str, types.ModuleType | None] = {}
        """None for one that is not there: using it will fail."""
        self.imported: set[str] = set()
        """Names of all that was imported, modules or not."""
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._import(alias)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        self.bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        """Of attributes: the one place where a module may stand."""

    def check(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and node.id in self.modules:
            if not isinstance(node.ctx, ast.Load):
                raise Forbidden("forbidden_name", f"{node.id} is a module, and bound again")
            if id(node) not in self.bases:
                raise Forbidden("forbidden_name", f"the module {node.id} as a value")
        elif isinstance(node, ast.arg) and node.arg in self.modules:
            raise Forbidden("forbidden_name", f"{node.arg} is a module, and bound again")
        elif isinstance(node, ast.Attribute):
            self._check_attribute(node)

    def _check_attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load) and self._is_imported(node.value):
            raise Forbidden("forbidden_attribute", f"{node.attr} of what is imported is changed")
        found = self._resolve(node)
        if isinstance(found, types.ModuleType) and id(node) not in self.bases:
            raise Forbidden("forbidden_attribute", f"the module {node.attr} as a value")

    def _is_imported(self, node: ast.AST) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.imported

    def _resolve(self, node: ast.AST) -> object:
        """The module, or what a module has by that name; None for whatever is neither."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        module = self._resolve(node.value)
        if not isinstance(module, types.ModuleType):
            return None
        return self._take(module, node.attr, "forbidden_attribute")

    def _take(self, module: types.ModuleType, name: str, word: str) -> object:
        """An attribute of a module. One that is not there is refused too: the error would tell
        where the module's file is."""
        where = f"{module.__name__}.{name}"
        if name.startswith("_") or not hasattr(module, name):
            raise Forbidden(word, where)
        value = getattr(module, name)
        if isinstance(value, types.ModuleType) and not self._is_allowed(value.__name__):
            raise Forbidden(word, where)
        return value

    def _import(self, alias: ast.alias) -> None:
        module = self._find(alias.name)
        name = alias.asname or alias.name.partition(".")[0]
        self.modules[name] = module if alias.asname else self._find(name)
        self.imported.add(name)

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level or not node.module:
            raise Forbidden("forbidden_import", "a relative import")
        module = self._find(node.module)
        for alias in node.names:
            name = alias.asname or alias.name
            self.imported.add(name)
            if module is None:
                continue
            for public in _public_names(module) if alias.name == "*" else [alias.name]:
                value = self._take(module, public, "forbidden_import")
                if isinstance(value, types.ModuleType):
                    self.modules[name if public == alias.name else public] = value

    def _find(self, name: str) -> types.ModuleType | None:
        if not self._is_allowed(name):
            raise Forbidden("forbidden_import", name)
        try:
            return importlib.import_module(name)
        except Exception:  # noqa: BLE001  whatever it is, the program will meet it again
            return None

    def _is_allowed(self, name: str) -> bool:
        parts = name.split(".")
        return (name in self.allowed or parts[0] in self.allowed) and not any(
            part.startswith("_") for part in parts
        )


def _public_names(module: types.ModuleType) -> list[str]:
    public = getattr(module, "__all__", None)
    return [name for name in vars(module) if name[0] != "_"] if public is None else list(public)
