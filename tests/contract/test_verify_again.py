"""The problems of a run, verified once more."""

import sqlite3
from contextlib import closing
from pathlib import Path

from redqueen.evaluate.verify_again import FACT, verify_again
from redqueen.ledger.lock import RunLock
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import FILE, digest
from redqueen.report.gather import gather_runs
from redqueen.sandbox.pool import SandboxPool
from tests.report.synthetic import Synthetic


def test_verdicts_that_differ_are_counted_recorded_and_reported(
    pool: SandboxPool, tmp_path: Path
) -> None:
    """The gold answers of a synthetic run are made up, until they are set right here."""
    folder = tmp_path / "run"
    Synthetic(steps=2, worlds=1, members=2, arm="full").write(folder)
    before = digest(folder)
    first = verify_again(folder, pool)
    assert 0 < len(first.disagreements) <= first.problems
    assert digest(folder) == before  # measuring a run does not change it
    with closing(sqlite3.connect(folder / FILE)) as connection, connection:
        for one in first.disagreements:
            if one.verdict.startswith("["):
                change = "UPDATE problems SET gold = ? WHERE problem = ?"
            else:  # the made-up problems of code_f have too few inputs
                assert one.verdict.startswith("malformed")
                change = "DELETE FROM problems WHERE ?1 <> '' AND problem = ?2"
            connection.execute(change, (one.verdict, one.problem))
    second = verify_again(folder, pool)
    assert second.problems > 0
    assert second.disagreements == []
    texts = [finding["text"] for finding in gather_runs([folder])[0]["findings"]]
    assert any(f"Verified again, 0 of {second.problems} problems" in text for text in texts)


def test_nothing_is_written_to_a_run_that_is_being_played(
    pool: SandboxPool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    Synthetic(steps=1, worlds=1, members=2, arm="full").write(folder)
    with RunLock(folder):
        assert verify_again(folder, pool).problems > 0
    with open_run(folder) as run:
        assert FACT not in run.about
    verify_again(folder, pool)
    with open_run(folder) as run:
        assert FACT in run.about
