"""The reference pages of the documentation site, made from the code when the site is built: nothing
in them can be out of date. A hook of mkdocs (`mkdocs.yml`)."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from reference_api import api_page
from reference_settings import settings_page, tables_page
from reference_text import code, line, sentence

from redqueen.cli.app import app
from redqueen.ledger.tables import schema_text

ROOT = Path(__file__).parents[1]
FROM_ROOT = {"security.md": "SECURITY.md"}
"""Pages that are files of the repository's root."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, make in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    for name, source in FROM_ROOT.items():
        text = (ROOT / source).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


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
        lines += ["", f"## `{name}`", "", *([line(sentence(about)), ""] if about else [])]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        for columns, meaning in map(_columns, body.splitlines()):
            for column, kind in columns:
                known[column] = known.get(column) or meaning
                lines.append(f"| `{column}` | {kind} | {line(meaning or known[column])} |")
    return "\n".join(lines)


def _columns(text: str) -> tuple[list[tuple[str, str]], str]:
    """Those of a line of the schema, and its comment."""
    declared, _, comment = text.partition("--")
    found = re.findall(r"(\w+) (INTEGER|REAL|TEXT)( NOT NULL| PRIMARY KEY)?", declared)
    kinds = [(name, f"{kind.lower()}{'' if key else ' or NULL'}") for name, kind, key in found]
    return kinds, sentence(comment.strip())


# commands


def commands_page() -> str:
    group: Any = typer.main.get_command(app)
    lines = ["# Commands", "", "What `redqueen COMMAND --help` says, for all commands."]
    for words, command in _commands(group, ()):
        lines += ["", f"## `redqueen {' '.join(words)}`", "", line(command.help or "")]
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
            meaning = line(getattr(parameter, "help", "") or "")
            lines.append(f"| {code(label)} | {default} | {meaning} |")
    return "\n".join(lines)


def _commands(group: Any, before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    context = group.make_context("redqueen", [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _commands(command, (*before, name))
        else:
            yield (*before, name), command


PAGES: dict[str, Callable[[], str]] = {
    "settings": settings_page,
    "tables": tables_page,
    "commands": commands_page,
    "ledger": ledger_page,
    "api": api_page,
}
