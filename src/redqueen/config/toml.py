"""Settings from and to TOML: defaults, a recipe or a sparse file, `--set a.b=c` or keywords, in
that order."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import BaseModel, ValidationError
from tomlkit.items import Item, Table

from redqueen.config.explain import explain
from redqueen.config.registry import NO_IMPORTS, Choice
from redqueen.config.schema import Config, merge
from redqueen.errors import ConfigError, unknown

RECIPES = Path(__file__).parent / "recipes"


def find_recipe(name: str) -> Path:
    """A recipe of the package by its name, or a TOML file."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return path
    recipes = {path.stem: path for path in RECIPES.glob("*.toml")}
    if name not in recipes:
        raise ConfigError(
            unknown("recipe", name, recipes) + " A recipe of your own is a TOML file."
        )
    return recipes[name]


def recipe_names(*, studies: bool) -> list[str]:
    """Recipes of the package, or its studies."""
    names = sorted(path.stem for path in RECIPES.glob("*.toml"))
    return [name for name in names if name.startswith("study-") == studies]


def load_config(
    recipe: str | Path | None = None, settings: Sequence[str] = (), **changes: Any
) -> Config:
    """The settings of a run. Raises ConfigError with the place and the nearest name.

    - `recipe`: a recipe of the package by name, or a TOML file; None: the defaults.
    - `settings`: changes to it as on the command line, `a.b=c`.
    - `changes`: further changes as keywords, sections as dicts: `update={"kl": 0.1}`.
    """
    path = find_recipe(recipe) if isinstance(recipe, str) else recipe
    values: dict[str, Any] = {} if path is None else read_toml(path)
    if "arms" in values:
        raise ConfigError(f"{path} is a study: play it with `redqueen study`")
    for setting in settings:
        set_value(values, setting)
    return validate(merge(values, changes))


def config_from_toml(text: str, *, imports: bool = True) -> Config:
    """A config as `to_toml` wrote it; one of a run is read without imports."""
    try:
        return validate(tomllib.loads(text), imports=imports)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the stored config is not valid TOML: {error}") from error


def validate(values: Mapping[str, Any], *, imports: bool = True) -> Config:
    try:
        return Config.model_validate(values, context=None if imports else NO_IMPORTS)
    except ValidationError as error:
        raise ConfigError(explain(error.errors())) from error


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no config file {path}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not a readable TOML file: {error}") from error


def set_value(values: dict[str, Any], setting: str) -> None:
    """Put one `a.b=c` into nested tables."""
    name, equals, text = setting.partition("=")
    if not equals or not all(name.split(".")):
        raise ConfigError(
            f"--set takes a name and a value, such as verify.cpu_s=2; got '{setting}'"
        )
    *sections, field = name.strip().split(".")
    for section in sections:
        if isinstance(values.get(section), str):  # a choice by its name
            values[section] = {"type": values[section]}
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {setting}: '{section}' is a setting, not a section")
    values[field] = _read_value(text.strip())


def _read_value(text: str) -> Any:
    """A TOML value; anything else is text, so that quotes may be left out."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def to_toml(config: Config) -> str:
    """Every setting with its value and what it means, as a file that `load_config` reads back."""
    document = tomlkit.document()
    _add_settings(document, config)
    return tomlkit.dumps(document)


def _add_settings(table: Any, section: BaseModel) -> None:
    inner: list[tuple[str, BaseModel]] = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel) and not isinstance(value, Choice):
            inner.append((name, value))
            continue
        for line in (field.description or "").splitlines():
            table.add(tomlkit.comment(line))
        if value is None:  # TOML has no word for it
            table.add(tomlkit.comment(f"{name} = (none)"))
        else:
            table.add(name, _to_item(value))
    for name, value in inner:
        below: Table = tomlkit.table()
        _add_settings(below, value)
        table.add(tomlkit.nl())
        table.add(name, below)


def _to_item(value: Any) -> Item:
    """In one line, sections in lists included."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, dict):
        inline = tomlkit.inline_table()
        for name, item in value.items():
            if item is not None:
                inline.add(name, _to_item(item))
        return inline
    if isinstance(value, list | tuple | frozenset):
        array = tomlkit.array()
        array.extend(
            _to_item(item)
            for item in (value if not isinstance(value, frozenset) else sorted(value))
        )
        return array
    single: Item = tomlkit.item(value)
    return single
