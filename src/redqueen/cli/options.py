"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def complete_recipe(incomplete: str) -> list[str]:
    """For the shell: recipes that begin so. Files it completes by itself."""
    return _complete(incomplete, studies=False)


def complete_study(incomplete: str) -> list[str]:
    return _complete(incomplete, studies=True)


def _complete(incomplete: str, *, studies: bool) -> list[str]:
    from redqueen.config.toml import recipe_names

    return [name for name in recipe_names(studies=studies) if name.startswith(incomplete)]


RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
RunFolders = Annotated[
    list[Path],
    typer.Argument(metavar="RUN", help="Folders of runs; several are shown side by side."),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A sparse TOML file of settings.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="One setting, such as verify.cpu_s=2; may be repeated."
    ),
]
Device = Annotated[
    str, typer.Option(help="auto (the GPU where there is one), cpu, cuda or cuda:1.")
]
MovedBase = Annotated[
    str | None,
    typer.Option(
        "--base",
        help="Where the run's base is now, if it has moved: a folder, a .gguf file, a name.",
    ),
]
SandboxMode = Annotated[
    Literal["safe", "unsafe"] | None,
    typer.Option(
        "--sandbox",
        help="`unsafe` runs even where walls are missing: for programs you trust, "
        "and shown on every run.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
