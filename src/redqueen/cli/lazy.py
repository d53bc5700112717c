"""A group of commands whose modules are imported when one is called, so that `--help` costs no
torch."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from redqueen.errors import unknown

RENAMED_OPTIONS = {
    "--pack": "--prompt-format",
    "--rows-in-flight": "--max-num-seqs",
    "--prefill-tokens": "--max-prefill-tokens",
    "--train-tokens": "--max-tokens-per-microbatch",
    "--thought-share": "--reasoning-share",
}
SETTINGS = {
    "--steps": "steps",
    "--seed": "seed",
    "--lr": "update.learning_rate",
    "--learning-rate": "update.learning_rate",
    "--rank": "lora.rank",
    "--suite": "evaluate.suite",
}
"""What people give as options of `run` and `study`, and which setting it is."""

Commands = Mapping[str, tuple[str, str]]
"""Of each command its import path, and the line that `--help` has for it. The path leads to a
function with typer's annotations, or to a `typer.Typer`."""


class PlainGroup(TyperGroup):
    """Shows the first sentence of every command whole; typer would cut it at the terminal's
    width."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._summary(ctx, name)) for name in self.commands])

    def _summary(self, ctx: Any, name: str) -> str:
        text = " ".join((self.commands[name].help or "").split())
        return text.partition(". ")[0].rstrip(".") + "."


class LazyGroup(TyperGroup):
    table: ClassVar[Commands]
    sections: ClassVar[Mapping[str, str]]
    """Headings of the help, and the names of the commands below each."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.table:
            if ctx.resilient_parsing:  # a shell completes: an error would be printed into its line
                return None
            if cmd_name == "help":
                ctx.fail("type `redqueen --help`, or `redqueen COMMAND --help`")
            ctx.fail(unknown("command", cmd_name, self.table))
        module, _, name = self.table[cmd_name][0].partition(":")
        target = getattr(import_module(module), name)
        if not isinstance(target, typer.Typer):
            function, target = target, new_app()
            target.command(cmd_name)(function)
        return get_command(target)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """By the table: no command is imported to complete its name."""
        stubs = [TyperCommand(name, help=about) for name, (_, about) in self.table.items()]
        stub = TyperGroup(commands=stubs, params=self.params)
        return stub.shell_complete(type(ctx)(stub, ctx.parent, ctx.info_name), incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, names in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.table[name][1]) for name in names.split()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        plays, resumes = args[:1] in (["run"], ["study"]), args[:1] == ["resume"]
        for word in args if not ctx.resilient_parsing else ():
            option, _, value = word.partition("=")
            if new := RENAMED_OPTIONS.get(option):
                ctx.fail(f"{option} is called {new} now")
            if plays and (setting := SETTINGS.get(option)):
                ctx.fail(f"{option} is a setting: --set {setting}={value or 'VALUE'}")
            if resumes and option == "--set":
                ctx.fail(
                    "a run goes on with its own settings. `redqueen fork RUN --set NAME=VALUE` "
                    "begins a new run at its newest checkpoint, with others"
                )
        return super().parse_args(ctx, args)


def new_app(
    commands: Commands | None = None,
    sections: Mapping[str, str] | None = None,
    **settings: Any,
) -> typer.Typer:
    settings.setdefault("cls", PlainGroup)
    if commands is not None:
        own = {"table": commands, "sections": sections or {"Commands": " ".join(commands)}}
        settings["cls"] = type("Group", (LazyGroup,), own)
    return typer.Typer(
        **{"add_completion": False, **settings},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
