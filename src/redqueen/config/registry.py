"""Open tables: every choice is a name in a table, or the import path of something of your own.

    MUTATIONS = Registry("mutation", {"gaussian": Entry(gaussian, Gaussian), ...})

    evolve.mutations = ["gaussian", { type = "gaussian", eps = 0.2 }, "my_package:my_mutation"]

A row is the thing itself, an `Entry` where it has settings, or an import path where importing it is
heavy. What comes by import path may carry its settings class as an attribute `settings`; without
one, a free table `settings = {...}` is passed on as it is.

An import path in a file that somebody else wrote would run their code, or call what the standard
library has with their settings. So nothing of the standard library is imported, and a stored run is
read without any import but those that this process has made already or the user vouches for.
"""

import importlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from redqueen.config.messages import explain_values
from redqueen.config.section import Section
from redqueen.errors import ConfigError, unknown

T = TypeVar("T")
VOUCHED = "REDQUEEN_IMPORTS"
"""Environment variable: packages, with commas between them, that stored runs may have imported."""
NO_IMPORTS = {"imports": False}
"""For pydantic, the context in which stored settings are read."""
_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Choice(Section):
    """A row of an open table, with its settings."""

    type: str
    """A name of the table, or an import path of your own: `package.module:name`."""

    def table(self) -> dict[str, Any]:
        """Its settings, without the name."""
        return self.model_dump(exclude={"type"})

    @property
    def options(self) -> Any:
        """What the row is called with: its settings."""
        return self


class CustomChoice(Choice):
    """Something of your own by import path, with whatever settings it takes."""

    settings: dict[str, Any] = Field(default_factory=dict)
    """Passed on as they are."""

    @field_validator("settings")
    @classmethod
    def _check_numbers(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """They go into the ledger as JSON, which has no word for the others."""
        try:
            json.dumps(settings, allow_nan=False, default=str)
        except ValueError as error:
            raise ValueError(f"takes finite numbers; got {settings}") from error
        return settings

    @property
    def options(self) -> Any:
        return self.settings


class UnreadChoice(Choice):
    """Something by import path as it was stored, with settings that nobody has checked: what they
    belong to was not imported."""

    model_config = ConfigDict(extra="allow")


class Entry(NamedTuple):
    """A row with settings of its own."""

    value: Any
    settings: type[Choice]


class Registry(Mapping[str, T], Generic[T]):
    """One table of choices. `registry[name]` takes a name or an import path."""

    def __init__(
        self, what: str, rows: Mapping[str, Any], custom: type[Choice] = CustomChoice
    ) -> None:
        self.what, self._rows, self._custom = what, dict(rows), custom

    def __getitem__(self, name: str) -> T:
        row = self._row(name)
        value: T = row.value if isinstance(row, Entry) else row
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def settings(self, name: str) -> type[Choice]:
        """The settings class of a row."""
        row = self._row(name)
        if isinstance(row, Entry):
            return row.settings
        own = getattr(row, "settings", None)
        if isinstance(own, type) and issubclass(own, Choice):
            return own
        return self._custom if ":" in name else Choice

    def choose(self, value: Any, *, imports: bool = True) -> Choice:
        """The choice that a setting stands for: a name, a table with `type`, or a choice. Without
        `imports` only what is vouched for is imported."""
        if isinstance(value, Choice):
            value = value.model_dump()
        if isinstance(value, str) and value.startswith("{"):
            # quotes as JSON or Python have them: TOML did not take it for a table
            raise ConfigError(
                f"a table is TOML, such as {{type = 'NAME', setting = 1}}; got {value}"
            )
        table = {"type": value} if isinstance(value, str) else value
        if not isinstance(table, Mapping) or not isinstance(table.get("type"), str):
            raise ConfigError(
                f"a {self.what} is a name, or a table with `type` and its settings; got {value!r}"
            )
        name = table["type"]
        unread = not imports and ":" in name and name not in self._rows and not is_vouched(name)
        settings = UnreadChoice if unread else self.settings(name)
        try:
            return settings.model_validate(dict(table))
        except ValidationError as error:
            raise ConfigError(
                "; ".join(self._explain(name, settings, item) for item in error.errors())
            ) from error

    def _row(self, name: str) -> Any:
        if name not in self._rows:
            if ":" not in name:
                raise ConfigError(
                    unknown(self.what, name, self._rows)
                    + " One of your own is given by import path, `package.module:name`."
                )
            return import_path(self.what, name)
        row = self._rows[name]
        return import_path(self.what, row) if isinstance(row, str) else row

    def _explain(self, name: str, settings: type[Choice], item: Any) -> str:
        where = ".".join(map(str, item["loc"]))
        if item["type"] == "extra_forbidden":
            message = unknown("setting", where, settings.model_fields)
        elif item["type"] == "value_error":  # the message says what was given
            message = f"{where}: {item['ctx']['error']}" if where else str(item["ctx"]["error"])
        else:
            message = f"{where}: {explain_values([item])}"
        return f"{self.what} '{name}': {message}"


def import_path(what: str, path: str) -> Any:
    """What `package.module:name` stands for."""
    module, _, name = path.partition(":")
    if _is_pythons_own(module):
        raise ConfigError(
            f"the {what} '{path}' cannot be imported: {module} is a module of Python, and nothing "
            "of it is made for this"
        )
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"the {what} '{path}' cannot be imported: {error}") from error


def is_vouched(path: str) -> bool:
    """Whether a stored run may name this without being trusted: its module is imported already, or
    is in a package that the user has named in `REDQUEEN_IMPORTS`."""
    module = path.partition(":")[0]
    if _is_pythons_own(module):
        return False
    packages = [name.strip() for name in os.environ.get(VOUCHED, "").split(",") if name.strip()]
    return module in sys.modules or any(f"{module}.".startswith(f"{one}.") for one in packages)


def check_vouched(what: str, name: str) -> None:
    """Refuse to import what a stored run names, unless it is vouched for."""
    if ":" in name and not is_vouched(name):
        package = name.partition(":")[0].partition(".")[0]
        raise ConfigError(
            f"the {what} '{name}' is not imported: it is code that the run names. If you trust it, "
            f"set {VOUCHED}={package}"
        )


def stored_paths(settings: Any) -> list[str]:
    """Import paths in stored settings that nobody vouches for."""
    inner = list(settings.values()) if isinstance(settings, Mapping) else settings
    if isinstance(inner, list | tuple):
        return sorted({path for part in inner for path in stored_paths(part)})
    is_path = isinstance(settings, str) and _PATH.fullmatch(settings)
    return [settings] if is_path and not is_vouched(settings) else []


def _is_pythons_own(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


TABLES = {
    "archive policy": "redqueen.core.archive:POLICIES",
    "crossover": "redqueen.stages.evolve.cross:CROSSOVERS",
    "engine": "redqueen.engine.protocol:ENGINES",
    "estimator": "redqueen.stages.update.advantages:ESTIMATORS",
    "fitness": "redqueen.stages.evolve.fitness:FITNESS",
    "game": "redqueen.tasks.games:GAMES",
    "loss": "redqueen.stages.update.losses:LOSSES",
    "match scheme": "redqueen.stages.match.schemes:SCHEMES",
    "merge": "redqueen.stages.evolve.merge:MERGES",
    "mutation": "redqueen.stages.evolve.mutate:MUTATIONS",
    "problem source": "redqueen.tasks.sources:GENERATORS",
    "prompt format": "redqueen.tasks.prompts:PROMPT_FORMATS",
    "rating outcome": "redqueen.stages.rate.outcome:OUTCOMES",
    "sandbox": "redqueen.sandbox.backends:SANDBOXES",
    "selection": "redqueen.stages.evolve.select:SELECTIONS",
    "student reward": "redqueen.stages.reward.student:STUDENT_REWARDS",
    "suite": "redqueen.evaluate.suites:SUITES",
    "task kind": "redqueen.tasks:KINDS",
    "teacher fitness": "redqueen.stages.evolve.fitness:TEACHER_FITNESS",
    "teacher reward": "redqueen.stages.reward.teacher:TEACHER_REWARDS",
    "tracker": "redqueen.report.trackers:TRACKERS",
}
"""Every open table and where it is. Settings name tables from here, so that the schema can be read
without importing what the tables hold."""


def table(what: str) -> Registry[Any]:
    """An open table by what it holds."""
    registry: Registry[Any] = import_path("table", TABLES[what])
    return registry


def chosen_from(what: str, default: str = "") -> Any:
    """For `Annotated`: a setting that chooses from a table. A table without `type` changes settings
    of the default choice."""

    def choose(value: Any, info: ValidationInfo) -> Choice:
        if default and isinstance(value, Mapping) and "type" not in value:
            value = {"type": default, **value}
        try:
            return table(what).choose(value, imports=may_import(info))
        except ConfigError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(choose)


def may_import(info: ValidationInfo) -> bool:
    """Whether settings that are being validated may have anything imported."""
    return (info.context or {}).get("imports", True) is True


def name_from(what: str, *others: str) -> Any:
    """For `Annotated`: a setting that names a row of a table, or one of the others, or an import
    path."""

    def check(name: str) -> str:
        names = (*others, *table(what))
        if ":" not in name and name not in names:
            raise ValueError(unknown(what, name, names))
        return name

    return AfterValidator(check)


OneOf = SerializeAsAny[Choice]
"""The type of such a setting, for `Annotated`."""


def default(name: str) -> Any:
    """The default of such a setting, by name: looked up when a section is made, not on import."""
    return Field(default=name, validate_default=True)
