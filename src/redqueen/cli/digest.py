"""`redqueen digest`: one hash of a run."""

import typer

from redqueen.cli.options import RunFolder
from redqueen.ledger.store import digest as digest_of


def digest(folder: RunFolder) -> None:
    """Print one hash over all records of a run, timings left out: equal for equal runs.

    Runs of equal settings are equal on processors of one kind (AVX2, AVX512) with as many threads:
    both decide how sums are rounded. What else the machine is doing changes nothing.
    """
    typer.echo(digest_of(folder))
