"""`redqueen config`: every setting there is."""

import typer

from redqueen.cli.options import ConfigFile, Settings
from redqueen.config.toml import load_config, to_toml


def config(file: ConfigFile = None, settings: Settings = None) -> None:
    """Print every setting with its value and meaning, as TOML."""
    typer.echo(to_toml(load_config(file, settings or [])), nl=False)
