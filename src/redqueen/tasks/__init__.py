"""Task kinds: what problems can be about. One folder a domain; `code/` is the first."""

from functools import cache

from redqueen.config.registry import Registry
from redqueen.tasks.code.abduction import CodeI
from redqueen.tasks.code.deduction import CodeO
from redqueen.tasks.code.induction import CodeF
from redqueen.tasks.kind import Kind, Malformed, Reject, Request, RunRules, TaskKind, Verified

__all__ = [
    "KINDS",
    "Kind",
    "Malformed",
    "Reject",
    "Request",
    "RunRules",
    "TaskKind",
    "Verified",
    "load_kind",
    "load_kinds",
]

KINDS: Registry[TaskKind] = Registry(
    "task kind", {"code_o": CodeO(), "code_i": CodeI(), "code_f": CodeF()}
)


@cache
def load_kind(name: str) -> TaskKind:
    """A kind by its name, or by the import path of a class of your own."""
    row = KINDS[name]
    return row() if isinstance(row, type) else row


def load_kinds(*names: str) -> dict[str, TaskKind]:
    """Kinds by name; those of the package where none is named."""
    return {name: load_kind(name) for name in names or KINDS}
