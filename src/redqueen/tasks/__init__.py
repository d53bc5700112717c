"""The task kinds: sorts of verifiable problems, behind one protocol."""

import importlib

from redqueen.errors import ConfigError, unknown
from redqueen.tasks.code.abduction import CodeI
from redqueen.tasks.code.deduction import CodeO
from redqueen.tasks.code.induction import CodeF
from redqueen.tasks.kind import Draft, FewShot, Malformed, Request, RunRules, TaskKind

__all__ = ["KINDS", "Draft", "FewShot", "Malformed", "Request", "RunRules", "TaskKind", "load_kind"]

KINDS: dict[str, TaskKind] = {"code_o": CodeO(), "code_i": CodeI(), "code_f": CodeF()}


def load_kind(name: str) -> TaskKind:
    """A kind by its name, or by the import path of a class of one's own: `my_package.tasks:MyKind`."""
    if name in KINDS:
        return KINDS[name]
    module_name, colon, class_name = name.partition(":")
    if not colon:
        raise ConfigError(
            unknown("task kind", name, KINDS)
            + " A kind of your own is given by import path, `module:Class`."
        )
    try:
        kind: TaskKind = getattr(importlib.import_module(module_name), class_name)()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"the task kind '{name}' cannot be imported: {error}") from error
    return kind
