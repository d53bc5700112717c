"""What operators have in common: the base of their settings, the row of a table, and operators from
outside by import path."""

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from redqueen.config.section import Section
from redqueen.errors import ConfigError, unknown

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack


class OperatorSettings(Section):
    """Settings of one operator in the mix."""

    type: str
    """Which operator: a name of the table, or the import path of a function of your own."""
    weight: float = Field(default=1.0, gt=0)
    """How often it is drawn, beside the others of the mix."""


class Outside(OperatorSettings):
    """An operator of your own, `type = "my_package.ops:my_mutation"`, with whatever settings it
    takes."""

    type: str = Field(pattern=r"^[\w.]+:\w+$")
    settings: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Handed to the function as they are."""


class Operator(NamedTuple):
    """A row of a table: settings, function, and how many parents the child's rating and lineage
    count."""

    settings: type[OperatorSettings]
    function: "Callable[..., Stack]"
    parents: int


def by_name(what: str, table: Mapping[str, Operator], value: Any) -> Any:
    """Before validation: a bare name stands for the operator with its defaults, and a wrong name is
    answered with the nearest."""
    if isinstance(value, str):
        value = {"type": value}
    name = value.get("type") if isinstance(value, dict) else None
    if isinstance(name, str) and name not in table and ":" not in name:
        raise ValueError(
            unknown(what, name, table)
            + " One of your own is given by import path, `module:function`."
        )
    return value


def tag(value: Any) -> str:
    """Which member of the union a value is: the table's name, or `outside`."""
    name = value.get("type", "") if isinstance(value, dict) else getattr(value, "type", "")
    return "outside" if ":" in str(name) else str(name)


def load(settings: OperatorSettings, table: Mapping[str, Operator], parents: int) -> Operator:
    """The operator that settings ask for; `parents` says what one from outside takes."""
    if settings.type in table:
        return table[settings.type]
    module, _, function = settings.type.partition(":")
    try:
        found: Callable[..., Stack] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"the operator '{settings.type}' cannot be imported: {error}") from error
    return Operator(type(settings), found, parents)
