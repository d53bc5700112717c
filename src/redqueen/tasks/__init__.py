"""Task kinds: what problems can be about. One folder a domain, and nothing else: every package in
this folder that has a table `KINDS` is one. It may have a table `SOURCES` as well, of generators of
its problems.
"""

import importlib
import pkgutil
from functools import cache

from redqueen.config.registry import Registry, check_vouched
from redqueen.errors import ConfigError
from redqueen.tasks.kind import Kind, Malformed, Reject, Request, RunRules, TaskKind, Verified, Void

__all__ = [
    "DOMAINS",
    "KINDS",
    "Kind",
    "Malformed",
    "Reject",
    "Request",
    "RunRules",
    "TaskKind",
    "Verified",
    "Void",
    "load_kind",
    "load_kinds",
    "stored_kind",
]

DOMAINS = {
    found.name: module
    for found in pkgutil.iter_modules(__path__)
    if found.ispkg
    and hasattr(module := importlib.import_module(f"{__name__}.{found.name}"), "KINDS")
}
KINDS: Registry[TaskKind] = Registry(
    "task kind",
    {name: kind for domain in DOMAINS.values() for name, kind in domain.KINDS.items()},
)


@cache
def load_kind(name: str) -> TaskKind:
    """A kind by its name, or by the import path of a class of your own."""
    row = KINDS[name]
    return row() if isinstance(row, type) else row


def load_kinds(*names: str) -> dict[str, TaskKind]:
    """Kinds by name; those of the package where none is named."""
    return {name: load_kind(name) for name in names or KINDS}


def stored_kind(name: str) -> TaskKind:
    """A kind that a stored run names. One that nobody vouches for is not imported."""
    if name not in KINDS:
        check_vouched(KINDS.what, name)
        if not hasattr(KINDS[name], "load_payload"):
            raise ConfigError(f"'{name}' is no task kind")
    return load_kind(name)
