"""What `resume` refuses, and that nothing is changed where it does."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from redqueen import Run, load_config
from redqueen.errors import ConfigError, RedQueenError
from redqueen.ledger.lock import RunLock
from tests.contract.gguf_files import qwen_model, save_folder, save_gguf

SETTINGS = [
    "steps=1", "population.teachers=1", "population.students=1", "tasks.kinds=['code_o']",
    "tasks.prompt_format=compact", "archive.seed_count=2", "propose.max_tokens=8",
    "solve.max_tokens=8", "lora.rank=2", "evaluate.suite=", "sandbox.workers=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One base in two formats, and another of the same shape in both."""
    folder = tmp_path_factory.mktemp("bases")
    for seed, name in enumerate(("base", "other")):
        model = qwen_model(seed)
        save_gguf(model, folder / f"{name}.gguf")
        save_folder(model, folder / name)
    return folder


@pytest.fixture(scope="module")
def made(bases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one step on a GGUF file."""
    folder = tmp_path_factory.mktemp("runs") / "made"
    config = load_config(None, [*SETTINGS, f"base={bases / 'base.gguf'}"])
    with Run.create(config, folder) as run:
        assert [step.number for step in run] == [1]
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it; at the end it has what it had."""
    folder = Path(shutil.copytree(made, tmp_path / "run"))
    yield folder
    assert content(folder) == content(made)


def content(folder: Path) -> tuple[list[str], list[str]]:
    """Everything in a run: its records, and its files but for SQLite's own."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        dump = list(connection.iterdump())
    files = (path for path in folder.rglob("*") if not path.name.startswith(("run.sqlite", "lock")))
    return dump, sorted(str(path.relative_to(folder)) for path in files)


@pytest.mark.parametrize("name", ["other.gguf", "other"])
def test_another_base_of_the_same_shape_is_refused_in_any_format(
    name: str, run: Path, bases: Path
) -> None:
    with pytest.raises(ConfigError, match="other weights than when the members were made"):
        Run.resume(run, steps=3, base=str(bases / name))


def test_the_same_base_in_another_format_is_taken(made: Path, bases: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "run"))
    with Run.resume(folder, steps=2, base=str(bases / "base")) as run:
        assert (run.step, run.config.steps) == (1, 2)
        assert run.ledger.about["steps"] == "2" and run.ledger.about["ended"] == ""


def test_fewer_steps_than_were_played_are_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match="has 1 step already"):
        Run.resume(run, steps=0)


def test_a_run_that_somebody_else_plays_is_refused(run: Path) -> None:
    with RunLock(run), pytest.raises(ConfigError, match="is locked by process"):
        Run.resume(run, steps=3)


def test_more_steps_without_a_readable_checkpoint_are_refused(made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "run"))
    for manifest in folder.glob("checkpoints/*/MANIFEST.json"):
        manifest.write_text("{}")
    before = content(folder)
    with pytest.raises(RedQueenError, match=r"no checkpoint .* can be read"):
        Run.resume(folder, steps=3)
    assert content(folder) == before


def test_a_checkpoint_of_another_shape_is_refused_before_anything_is_written(
    made: Path, tmp_path: Path
) -> None:
    """Its checksums are right, so that only the engine can tell."""
    folder = Path(shutil.copytree(made, tmp_path / "run"))
    (folder / "checkpoints/.staging-000009").mkdir()
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        connection.execute("UPDATE worlds SET config = json_set(config, '$.lora.rank', 4)")
        connection.commit()
    before = content(folder)
    with pytest.raises(RedQueenError):
        Run.resume(folder, steps=3)
    assert content(folder) == before
