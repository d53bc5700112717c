"""The page about the Python API: signatures, docstrings, and the fields of records."""

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from reference_text import code, line

import redqueen
from redqueen.config.section import Section
from redqueen.evaluate.statistics import Difference
from redqueen.ledger.run_reader import RunMember, Table, WorldInfo

_MADE_BY = {
    "Difference": "Returned by `EvalResult.difference`.",
    "Run": "Made by `Run.create`, `Run.resume` or `Run.fork`.",
    "RunMember": "Returned by `RunReader.member`.",
    "RunReader": "Made by `open_run`.",
    "Table": "Returned by the methods of `RunReader`.",
    "WorldInfo": "Returned by `RunReader.worlds`.",
}
_RETURNED = (Difference, RunMember, Table, WorldInfo)
"""What is not imported, and met as a result."""
_WIDTH = 88


def api_page() -> str:
    lines = [
        "# Python API",
        "",
        "`import redqueen as rq`. Names are imported when they are first used: the import itself "
        "loads neither torch nor pydantic.",
    ]
    for name in sorted(redqueen.__all__, key=str.lower):
        if not name.startswith("_"):
            lines += ["", *_documented(name, named(name))]
    for value in _RETURNED:
        lines += ["", *_documented(value.__name__, value)]
    return "\n".join(lines)


def named(name: str) -> Any:
    """What a name of the API stands for. `evaluate` and `report` are rooms, too: the function is
    meant."""
    module, _, attribute = redqueen._NAMES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def _documented(name: str, value: Any) -> Iterator[str]:
    yield from (f"## `{name}`", "")
    if not inspect.isclass(value):
        yield from _function(name, value)
    elif issubclass(value, Section):
        yield "All settings of a run: [Settings](settings.md)."
    else:
        yield from _class(name, value)


def _class(name: str, value: type[Any]) -> Iterator[str]:
    is_record = dataclasses.is_dataclass(value)
    if not (is_record or name in _MADE_BY or issubclass(value, Exception)):
        yield from ("```python", _signature(name, value), "```", "")
    yield inspect.getdoc(value) or ""
    if name in _MADE_BY:
        yield from ("", _MADE_BY[name])
    if is_record:
        yield from _fields(value)
    members = {
        key: member
        for key, member in vars(value).items()
        if not key.startswith("_") and _is_own(member)
    }
    properties = {key: member for key, member in members.items() if _is_property(member)}
    if properties:
        yield from ("", "| property | meaning |", "|---|---|")
    for key, member in properties.items():
        yield f"| `{key}` | {line(inspect.getdoc(member) or '')} |"
    for key, member in members.items():
        if key not in properties:
            yield from ("", f"### `{name}.{key}`", "")
            yield from _function(key, getattr(member, "__func__", member))


def _function(name: str, function: Any) -> Iterator[str]:
    yield from ("```python", _signature(name, function), "```", "")
    yield inspect.getdoc(function) or ""


def _is_own(member: Any) -> bool:
    kinds = property | classmethod | staticmethod
    return inspect.isfunction(member) or isinstance(member, kinds) or _is_property(member)


def _is_property(member: Any) -> bool:
    return isinstance(member, property) or type(member).__name__ == "cached_property"


# records


def _fields(record: type[Any]) -> Iterator[str]:
    meanings = _field_docs(record)
    yield from ("", "| field | type | default | meaning |", "|---|---|---|---|")
    for field in dataclasses.fields(record):
        default = _plain(repr(field.default)) if field.default is not dataclasses.MISSING else ""
        cells = (
            code(field.name),
            code(_annotation(field.type)),
            code(default),
            line(meanings.get(field.name, "")),
        )
        yield f"| {' | '.join(cells)} |"


def _field_docs(record: type[Any]) -> dict[str, str]:
    """The texts behind the fields in the source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(record))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: text.value.value
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


# signatures


def _signature(name: str, value: Any) -> str:
    signature = inspect.signature(value)
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(p.startswith("*") for p in parts):
            parts.append("*")
        parts.append(_parameter(parameter))
    returned = signature.return_annotation
    end = f" -> {_annotation(returned)}" if returned not in (None, signature.empty) else ""
    whole = f"{name}({', '.join(parts)}){end}"
    if len(whole) <= _WIDTH:
        return whole
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{name}(\n{inner}){end}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = "..." if callable(parameter.default) else _plain(repr(parameter.default))
        text += f" = {default}"
    return text


def _annotation(annotation: Any) -> str:
    if isinstance(annotation, str):
        return _plain(annotation).replace('"', "").replace("'", "")
    return _plain(inspect.formatannotation(annotation))


def _plain(text: str) -> str:
    """Names without their modules."""
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_~])", "", text).replace("~", "")
