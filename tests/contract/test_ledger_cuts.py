"""A ledger cut at any byte: it is read up to a whole step, or refused with a line; a run with a cut
write-ahead log goes on as if nothing had happened."""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from redqueen.errors import ConfigError, RedQueenError, StorageError
from redqueen.ledger.store import FILE, Ledger, digest, last_step, open_to_read
from tests.contract import kills

STEPS = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as a kill leaves it: its last steps are in the write-ahead log only."""
    folder = tmp_path_factory.mktemp("run") / "run"
    kills.work(folder, 1)
    with closing(open_to_read(folder)) as reader:  # while it looks, the log is not folded in
        reader.execute("BEGIN").execute("SELECT * FROM marks").fetchall()
        kills.work(folder, STEPS)
        copied = Path(shutil.copytree(folder, folder.with_name("killed")))
    assert (copied / f"{FILE}-wal").stat().st_size > 50_000
    (copied / f"{FILE}-shm").unlink()
    return copied


def copies(run: Path, name: str, folder: Path, stride: int) -> Iterator[Path]:
    """The run with this file cut at every so many bytes, and one byte before and after a page."""
    size = (run / name).stat().st_size
    borders = [page + by for page in range(0, size, 4096 * 8) for by in (-1, 0, 1)]
    for cut in sorted({cut for cut in (*range(0, size, stride), *borders) if 0 <= cut < size}):
        copied = Path(shutil.copytree(run, folder / "cut", dirs_exist_ok=True))
        with (copied / name).open("r+b") as file:
            file.truncate(cut)
        yield copied
        shutil.rmtree(copied)


@pytest.mark.slow
def test_a_cut_log_ends_with_a_whole_step_and_the_run_goes_on_to_the_same_records(
    run: Path, tmp_path: Path
) -> None:
    ends, whole = set(), kills.straight(tmp_path / "straight", STEPS)
    for number, cut in enumerate(copies(run, f"{FILE}-wal", tmp_path, 997)):
        with closing(open_to_read(cut)) as reader:
            last = last_step(reader)
            counts = reader.execute("SELECT count(*) FROM proposals GROUP BY step").fetchall()
        assert [count for (count,) in counts] == [kills.PROPOSALS] * (last + 1)
        ends.add(last)
        if number % 10 == 0:
            kills.work(cut, STEPS)
            assert digest(cut) == whole
    assert ends == {1, 2}


@pytest.mark.slow
def test_a_cut_file_is_refused_with_a_line_that_says_where_the_members_are(
    run: Path, tmp_path: Path
) -> None:
    alone = Path(shutil.copytree(run, tmp_path / "alone"))
    with closing(sqlite3.connect(alone / FILE)) as connection:  # fold the log in
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = digest(alone)
    for cut in copies(alone, FILE, tmp_path, 9973):
        size = (cut / FILE).stat().st_size
        for opened in (Ledger.open, digest):
            with pytest.raises(RedQueenError) as caught:
                opened(cut)
            said = str(caught.value)
            assert isinstance(caught.value, StorageError), said
            assert re.search(r"is damaged: .* Nothing was changed\. Restore a backup", said)
            assert f"{cut / 'checkpoints'} has them as PEFT folders" in said
        assert (cut / FILE).stat().st_size == size
    assert digest(alone) == before


def test_a_file_that_is_no_ledger_beside_no_members_is_no_damaged_run(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(ConfigError, match="is not the ledger of a run"):
        Ledger.open(tmp_path)
