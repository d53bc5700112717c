"""Problems as JSON can hold them, and what a payload may hold so that it comes back as it was."""

from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any

from redqueen.errors import ConfigError
from redqueen.records import Author, Problem

if TYPE_CHECKING:
    from redqueen.tasks.kind import TaskKind


def freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: freeze(part) for name, part in value.items()}
    return tuple(map(freeze, value)) if isinstance(value, list) else value


def check_storable(value: Any, where: str) -> None:
    """A payload comes back from JSON as it was, so it holds what JSON can tell apart."""
    if isinstance(value, tuple):
        for part in value:
            check_storable(part, where)
    elif isinstance(value, dict) and all(isinstance(name, str) for name in value):
        for part in value.values():
            check_storable(part, where)
    elif not (value is None or type(value) in (bool, int, float, str)):
        raise ConfigError(
            f"{where} holds a {type(value).__name__}. A payload holds numbers, texts, None, tuples "
            "and dicts named by texts: write a nested dataclass or a set as a tuple."
        )


def payload_fields(payload: Any) -> dict[str, Any]:
    """A payload as JSON can hold it. `dataclasses.asdict` copies value by value, which takes six
    times as long for the thousands of problems of an archive."""
    return {field.name: getattr(payload, field.name) for field in fields_of(payload)}


def problem_fields(problem: Problem) -> dict[str, Any]:
    """A problem as JSON can hold it."""
    author = problem.author
    return {
        "key": problem.key,
        "kind": problem.kind,
        "payload": payload_fields(problem.payload),
        "gold": problem.gold,
        "features": dict(problem.features),
        "author": None if author is None else {"member": author.member, "version": author.version},
        "step": problem.step,
    }


def load_problem(fields: Mapping[str, Any], kind: "TaskKind") -> Problem:
    """The problem that `problem_fields` wrote."""
    author = fields["author"]
    return Problem(
        fields["key"],
        fields["kind"],
        kind.load_payload(fields["payload"]),
        tuple(fields["gold"]),
        fields["features"],
        None if author is None else Author(**author),
        fields["step"],
    )
