"""The reference pages of the documentation site, made from the code when the site is built: nothing
in them can be out of date. A hook of mkdocs (`mkdocs.yml`)."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic_core import PydanticUndefined

import redqueen
from redqueen.cli.app import app
from redqueen.config.registry import TABLES, Choice, table
from redqueen.config.section import Section
from redqueen.errors import RedQueenError
from redqueen.ledger.tables import schema_text


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, make in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    return files


# settings


def settings_page() -> str:
    return "\n".join(
        [
            "# Settings",
            "",
            "Every setting of a run, with its default. A recipe is a TOML file that has some of "
            "them; `--set section.name=value` changes one. `redqueen config` prints all of them "
            "with the values they have here.",
            *_section(redqueen.Config, ""),
        ]
    )


def _section(section: type[Section], path: str) -> Iterator[str]:
    inner = {name: field for name, field in section.model_fields.items() if _is_section(field)}
    plain = {name: field for name, field in section.model_fields.items() if name not in inner}
    if path:
        yield from ("", f"## `{path}`", "")
        if section.__doc__ and not section.__doc__.startswith("!!!"):
            yield from (_line(section.__doc__), "")
    if plain:
        yield from ("", "| setting | default | range | meaning |", "|---|---|---|---|")
    for name, field in plain.items():
        yield (
            f"| `{name}` | {_default(field)} | {_range(field)} | {_line(field.description or '')} |"
        )
    for name, field in inner.items():
        yield from _section(field.annotation, f"{path}.{name}".lstrip("."))


def _is_section(field: Any) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, Section)


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    return f"`{_escape(str(list(value) if isinstance(value, tuple | frozenset) else value))}`"


_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "at least"}


def _range(field: Any) -> str:
    found = [
        f"{sign} {getattr(rule, name)}"
        for rule in field.metadata
        for name, sign in _BOUNDS.items()
        if getattr(rule, name, None) is not None
    ]
    return ", ".join(found)


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
        for name in registry:
            lines.append(
                f"| `{name}` | {_row_doc(registry, name)} | {_row_settings(registry, name)} |"
            )
    return "\n".join(lines)


def _row_doc(registry: Mapping[str, Any], name: str) -> str:
    try:
        row = registry[name]
    except RedQueenError:  # a row of an extra that is not installed
        return "needs an extra"
    documented = row if callable(row) else type(row)
    return _line((inspect.getdoc(documented) or "").partition("\n\n")[0])


def _row_settings(registry: Any, name: str) -> str:
    try:
        settings: type[Choice] = registry.settings(name)
    except RedQueenError:
        return ""
    return "<br>".join(
        f"`{option}` = {_default(field)}: {_line(field.description or '')}"
        for option, field in settings.model_fields.items()
        if option not in ("type", "settings")
    )


# the ledger

_EVERYWHERE = {"world": "Number of the world.", "step": "Number of the step, from 1."}
_ABOUT = (
    "Every table and column of `run.sqlite`, in the order of the schema. Lists and objects are "
    "JSON text; step 0 is the state before training. What they are for, and queries: "
    "[The ledger](../ledger.md)."
)


def ledger_page() -> str:
    """From the comments of the schema. One behind several columns is about all of them; a column
    without any means what it means where it is explained first."""
    tables = re.findall(
        r"CREATE TABLE (\w+) \( *(?:-- ([^\n]*))?\n(.*?)\n\) STRICT;", schema_text(), re.DOTALL
    )
    known = dict(_EVERYWHERE)
    lines = ["# Ledger tables", "", _ABOUT]
    for name, about, body in tables:
        lines += ["", f"## `{name}`", "", *([_line(_sentence(about)), ""] if about else [])]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        for columns, meaning in map(_columns, body.splitlines()):
            for column, kind in columns:
                known[column] = known.get(column) or meaning
                lines.append(f"| `{column}` | {kind} | {_line(meaning or known[column])} |")
    return "\n".join(lines)


def _columns(line: str) -> tuple[list[tuple[str, str]], str]:
    """Those of a line of the schema, and its comment."""
    code, _, comment = line.partition("--")
    found = re.findall(r"(\w+) (INTEGER|REAL|TEXT)( NOT NULL| PRIMARY KEY)?", code)
    kinds = [(name, f"{kind.lower()}{'' if key else ' or NULL'}") for name, kind, key in found]
    return kinds, _sentence(comment.strip())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("." if text and not text.endswith(".") else "")


# commands


def commands_page() -> str:
    group: Any = typer.main.get_command(app)
    lines = ["# Commands", "", "What `redqueen COMMAND --help` says, for all commands."]
    for words, command in _commands(group, ()):
        lines += ["", f"## `redqueen {' '.join(words)}`", "", _line(command.help or "")]
        shown = [
            parameter for parameter in command.params if not getattr(parameter, "hidden", False)
        ]
        shown = [parameter for parameter in shown if "--help" not in parameter.opts]
        if shown:
            lines += ["", "| argument or option | default | meaning |", "|---|---|---|"]
        for parameter in shown:
            is_option = parameter.param_type_name == "option"
            names = " ".join((*parameter.opts, *parameter.secondary_opts))
            label = names if is_option else (parameter.metavar or parameter.name.upper())
            default = "" if parameter.default in (None, (), [], "") else f"`{parameter.default}`"
            default = "required" if parameter.required else default
            meaning = _line(getattr(parameter, "help", "") or "")
            lines.append(f"| `{_escape(label)}` | {default} | {meaning} |")
    return "\n".join(lines)


def _commands(group: Any, before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    context = group.make_context("redqueen", [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _commands(command, (*before, name))
        else:
            yield (*before, name), command


# the Python API


def api_page() -> str:
    lines = [
        "# Python API",
        "",
        "`import redqueen as rq`. Names are imported when they are first used: the import itself "
        "loads neither torch nor pydantic.",
    ]
    for name in sorted(redqueen.__all__, key=str.lower):
        if not name.startswith("_"):
            lines += ["", *_documented(name, getattr(redqueen, name), "##")]
    return "\n".join(lines)


def _documented(name: str, value: Any, level: str) -> Iterator[str]:
    yield from (f"{level} `{name}`", "")
    if inspect.isclass(value) and issubclass(value, Section):
        yield "All settings of a run: [Settings](settings.md)."
        return
    if callable(value) and not (inspect.isclass(value) and issubclass(value, Exception)):
        yield from ("```python", _signature(name, value), "```", "")
    yield inspect.getdoc(value) or ""
    if inspect.isclass(value):
        for method, member in vars(value).items():
            if not method.startswith("_") and inspect.getdoc(member) and _is_own(member):
                function = getattr(member, "__func__", member)
                yield from ("", *_documented_member(f"{name}.{method}", function))


def _is_own(member: Any) -> bool:
    return inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)


def _documented_member(name: str, member: Any) -> Iterator[str]:
    shown = name if isinstance(member, property) else _signature(name, member)
    yield f"- `{shown}`: {_line(inspect.getdoc(member) or '')}"


def _signature(name: str, value: Any) -> str:
    try:
        return f"{name}{inspect.signature(value)}"
    except ValueError:
        return name


# text


def _line(text: str) -> str:
    return _escape(" ".join(text.split()))


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


PAGES: dict[str, Callable[[], str]] = {
    "settings": settings_page,
    "tables": tables_page,
    "commands": commands_page,
    "ledger": ledger_page,
    "api": api_page,
}
