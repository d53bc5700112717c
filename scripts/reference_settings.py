"""The pages about settings and open tables, from the schema and from the tables themselves."""

import inspect
import json
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined
from reference_text import anchor, code, line, sentence

import redqueen
from redqueen.config.registry import TABLES, Choice, Registry, table
from redqueen.config.section import Section
from redqueen.errors import RedQueenError

# settings


def settings_page() -> str:
    return "\n".join(
        [
            "# Settings",
            "",
            "Every setting of a run, with its default. A recipe is a TOML file that has some of "
            "them; `--set section.name=value` changes one. `redqueen config` prints all of them "
            "with the values they have here. Where a setting chooses from an [open "
            "table](tables.md), the settings of its default are listed below it, such as "
            "`reward.teacher.invalid`; another choice has its own.",
            *_section(redqueen.Config, ""),
        ]
    )


def _section(section: type[Section], path: str) -> Iterator[str]:
    inner = {name: field for name, field in section.model_fields.items() if _is_section(field)}
    plain = {name: field for name, field in section.model_fields.items() if name not in inner}
    if path:
        yield from ("", f"## `{path}`", "")
        if section.__doc__ and not section.__doc__.startswith("!!!"):
            yield from (line(section.__doc__), "")
    yield from _rows(plain)
    for name, field in plain.items():
        yield from _choice(field, f"{path}.{name}".lstrip("."))
    for name, field in inner.items():
        yield from _section(field.annotation, f"{path}.{name}".lstrip("."))


def _choice(field: Any, path: str) -> Iterator[str]:
    """The settings of the row that is chosen by default."""
    name, what = default_of(field), table_of(field)
    if not (_is_choice(field) and isinstance(name, str)):
        return
    settings = _own_settings(table(what), name)
    if settings:
        others = f"[other rows](tables.md#{anchor(what)}) have others."
        yield from ("", f"## `{path}`", "", f"Settings of the default, `{name}`; {others}", "")
        yield from _rows(settings)


def _rows(fields: Mapping[str, Any]) -> Iterator[str]:
    if fields:
        yield from ("", "| setting | default | values | meaning |", "|---|---|---|---|")
    for name, field in fields.items():
        cells = (code(name), default_cell(field), values_cell(field), line(field.description or ""))
        yield f"| {' | '.join(cells)} |"


def _is_section(field: Any) -> bool:
    annotation = field.annotation
    is_section = isinstance(annotation, type) and issubclass(annotation, Section)
    return is_section and not _is_choice(field)


def _is_choice(field: Any) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, Choice)


def default_of(field: Any) -> Any:
    return field.get_default(call_default_factory=True)


def default_cell(field: Any) -> str:
    value = default_of(field)
    if value is PydanticUndefined:
        return "required"
    return "not set" if value is None else code(_toml(value))


def _toml(value: Any) -> str:
    """As a recipe has it."""
    if isinstance(value, frozenset):
        value = sorted(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


# values


def table_of(field: Any) -> str:
    """The open table that a setting chooses from; empty where it does not."""
    return next(iter(_tables((*field.metadata, field.annotation))), "")


def _tables(parts: tuple[Any, ...]) -> Iterator[str]:
    for part in parts:
        if checks := getattr(part, "func", None):  # a validator of `chosen_from` or `name_from`
            yield from filter(TABLES.__contains__, map(str, _bound(checks).values()))
        yield from _tables(getattr(part, "__metadata__", ()))
        yield from _tables(get_args(part))


def _bound(function: Any) -> Mapping[str, Any]:
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}


def values_cell(field: Any) -> str:
    """What a setting takes, where its default does not say it."""
    if what := table_of(field):
        return f"[{what}](tables.md#{anchor(what)})"
    return _values(field.annotation, tuple(field.metadata))


def _values(annotation: Any, rules: tuple[Any, ...] = ()) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _values(inner[0], (*rules, *annotation.__metadata__))
    if origin is Literal:
        return ", ".join(code(_toml(value)) for value in inner)
    if origin in (Union, types.UnionType):
        found = [_values(one) for one in inner if one is not type(None)]
        return " or ".join(filter(None, [*found, _bounds(rules)]))
    if origin is tuple:
        each = list(dict.fromkeys(filter(None, (_values(one) for one in inner if one is not ...))))
        of = "each of " if each and each[0].startswith("`") else "each "
        return ", ".join(filter(None, [of + each[0] if each else "", _bounds(rules)]))
    return _bounds(rules) or ("`true`, `false`" if annotation is bool else "")


_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "length ≥"}


def _bounds(rules: tuple[Any, ...]) -> str:
    found = (
        f"{sign} {_short(getattr(rule, name))}"
        for rule in rules
        for name, sign in _BOUNDS.items()
        if getattr(rule, name, None) is not None
    )
    return ", ".join(found)


def _short(number: float) -> str:
    power = abs(int(number)).bit_length() - 1
    if power > 60:
        return f"{'-' if number < 0 else ''}2^{power}"
    return f"{number:,g}" if number < 10**6 else f"{number:,}"


# tables


def tables_page() -> str:
    lines = [
        "# Open tables",
        "",
        "Every choice of a run is a row of one of these tables, or an import path of your own, "
        "`package.module:name` ([Extend it](../extending.md)).",
    ]
    for what in TABLES:
        registry = table(what)
        lines += ["", f"## {what}", "", "| name | what it is | settings |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {line(row_doc(registry, name))} | {_row_settings(registry, name)} |"
            for name in registry
        ]
    return "\n".join(lines)


def row_doc(registry: Registry[Any], name: str) -> str:
    """What a row says of itself: its summary, or the first paragraph of its docstring and that of
    its settings. What is inherited says nothing about a row."""
    try:
        row = registry[name]
        settings = registry.settings(name)
    except RedQueenError:  # a row of an extra that is not installed
        return "needs an extra"
    if summary := getattr(row, "summary", ""):
        return sentence(summary)
    own = row.__doc__ if callable(row) else type(row).__doc__
    about = settings.__dict__.get("__doc__") if settings is not Choice else ""
    return " ".join(_first_paragraph(text) for text in (own, about) if text)


def _first_paragraph(text: str) -> str:
    return inspect.cleandoc(text).partition("\n\n")[0]


def _own_settings(registry: Registry[Any], name: str) -> dict[str, Any]:
    try:
        fields = registry.settings(name).model_fields
    except RedQueenError:
        return {}
    return {option: field for option, field in fields.items() if option not in ("type", "settings")}


def _row_settings(registry: Registry[Any], name: str) -> str:
    return "<br>".join(
        f"`{option}` = {default_cell(field)}: {line(field.description or '')}"
        for option, field in _own_settings(registry, name).items()
    )
