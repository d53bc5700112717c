"""`redqueen digest`: one hash of a run."""

import typer

from redqueen.cli.options import RunFolder
from redqueen.ledger.store import digest as digest_of


def digest(folder: RunFolder) -> None:
    """Print one hash over all records of a run, timings left out: equal for equal runs."""
    typer.echo(digest_of(folder))
