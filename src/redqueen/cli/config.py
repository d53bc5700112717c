"""`redqueen config`: every setting there is."""

from typing import Annotated

import typer

from redqueen.cli.options import Settings, complete_recipe
from redqueen.config.toml import load_config, to_toml


def config(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="A recipe by name, or a TOML file; without one, the defaults.",
            autocompletion=complete_recipe,
        ),
    ] = None,
    settings: Settings = None,
) -> None:
    """Print every setting with its value and meaning, as TOML."""
    typer.echo(to_toml(load_config(recipe, settings or [])), nl=False)
