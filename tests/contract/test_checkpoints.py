"""Checkpoints survive kills, full disks and damage: what loads is whole, of one step, and not older
than what was acknowledged."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redqueen.errors import StorageError
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.manifest import MANIFEST, STATE, InvalidCheckpoint, read_state
from tests.contract import kills
from tests.contract.kills import steps_in

NAMES = ["model.safetensors", "adapters/T0/numbers.bin", "optimizer.safetensors", STATE, MANIFEST]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: what a kill leaves is the same, and no test waits for
    the disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def script(*arguments: object) -> dict[str, int]:
    """Run the script of kills; what it counted."""
    command = [sys.executable, kills.__file__, *map(str, arguments)]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    counted: dict[str, int] = json.loads(out.stdout)
    return counted


def save(checkpoints: Checkpoints, step: int) -> Path:
    return checkpoints.save(step, kills.writer(step, lambda: None), {"step": step, "share": 1 / 3})


def writes(name: str) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        (folder / name).write_bytes(b"x")
        return [Path(name)]

    return write


def steps(checkpoints: Checkpoints) -> list[int]:
    return [int(path.name) for path in sorted(checkpoints.folder.glob("[0-9]*"))]


@pytest.mark.slow
def test_a_kill_before_or_after_any_write_sync_rename_or_delete_loses_nothing_that_was_acknowledged(
    place: Path,
) -> None:
    """At every fourth such point; `python tests/contract/kills.py points FOLDER 1` takes them all."""
    kills = script("points", place, 4)
    assert kills["new"] > 15
    assert kills["going"] > 15


@pytest.mark.slow
def test_a_run_killed_again_and_again_has_the_digest_of_one_that_was_not(place: Path) -> None:
    assert script("random", place, 30)["kills"] == 30


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_write_leaves_the_old_state_intact(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path}"
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*alone, mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("no small disk can be mounted here")
    out = subprocess.run(
        [*alone, f"{mount} && exec {sys.executable} {kills.__file__} full {tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    failed = json.loads(out.stdout)
    assert failed["ledger"] > 3
    assert failed["checkpoint"] > 3


@pytest.mark.parametrize(
    "write",
    ["path.write_bytes(bytes(200_000))", "save_file({'a': np.zeros(50_000)}, path)"],
    ids=["bytes", "safetensors"],
)
def test_a_file_that_cannot_be_written_fails_the_save_and_nothing_else(
    write: str, tmp_path: Path
) -> None:
    code = f"""
    import resource, sys
    from pathlib import Path
    import numpy as np
    from safetensors.numpy import save_file
    from redqueen.errors import StorageError
    from redqueen.ledger.checkpoint import Checkpoints

    checkpoints = Checkpoints(Path(sys.argv[1]))
    def small(folder):
        (folder / "small").write_bytes(b"1")
        return [Path("small")]
    checkpoints.save(1, small, {{}})
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    def big(folder):
        path = folder / "big"
        {write}
        return [Path("big")]
    try:
        checkpoints.save(2, lambda folder: [*small(folder), *big(folder)], {{}})
    except StorageError as error:
        print(error)
    print(checkpoints.newest().step, sorted(path.name for path in checkpoints.folder.iterdir()))
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "checkpoint of step 2 could not be written" in out.stdout, out.stderr
    assert "File too large" in out.stdout
    assert f"redqueen resume {tmp_path}" in out.stdout
    assert out.stdout.endswith("1 ['000001']\n")


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize(
    "damage",
    [truncated, flipped, emptied, Path.unlink],
    ids=["truncated", "a bit flipped", "emptied", "deleted"],
)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_named_and_the_checkpoint_before_is_used(
    name: str,
    damage: Callable[[Path], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    damage(save(checkpoints, 2) / name)
    found = Checkpoints(tmp_path).newest()
    assert found is not None
    assert found.step == 1
    assert steps_in(found) == {1}
    (logged,) = caplog.messages
    assert "000002" in logged
    assert name in logged


@pytest.mark.slow
def test_a_flipped_bit_anywhere_in_the_manifest_shows(tmp_path: Path) -> None:
    folder = save(Checkpoints(tmp_path), 1)
    content = (folder / MANIFEST).read_bytes()
    for place in range(len(content)):
        (folder / MANIFEST).write_bytes(
            content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]
        )
        with pytest.raises(InvalidCheckpoint):
            read_state(folder, 1)
    (folder / MANIFEST).write_bytes(content)
    assert read_state(folder, 1) == {"step": 1, "share": 1 / 3}


def test_a_checkpoint_under_the_name_of_another_step_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(Checkpoints(tmp_path), 1).rename(tmp_path / "checkpoints/000007")
    assert Checkpoints(tmp_path).newest() is None
    assert "belongs to step 1" in caplog.text


def test_a_checkpoint_of_another_format_says_so(tmp_path: Path) -> None:
    folder = save(Checkpoints(tmp_path), 1)
    (folder / MANIFEST).write_text(
        (folder / MANIFEST).read_text().replace('"format": 1', '"format": 2')
    )
    with pytest.raises(InvalidCheckpoint, match="has format 2, this redqueen reads format 1"):
        read_state(folder, 1)


def test_everything_is_on_the_disk_before_it_has_its_name_and_the_name_before_the_old_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill cannot show this, a power cut would."""
    calls: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(descriptor: int) -> None:
        calls.append(
            ("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(folder)))
        )
        fsync(descriptor)

    def noted_rename(source: Path, target: Path, **named: int) -> None:
        if folder in Path(source).parents and not Path(source).name.startswith(".tmp"):
            calls.append(("rename", f"{source.name} {target.name}"))
        rename(source, target, **named)

    checkpoints = Checkpoints(tmp_path, keep=1)
    folder = checkpoints.folder
    save(checkpoints, 1)
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    save(checkpoints, 2)
    content = [
        "adapters/T0/numbers.bin",
        "adapters/T0",
        "adapters",
        "model.safetensors",
        "optimizer.safetensors",
        STATE,
    ]
    before = [("sync", f".staging-000002/{name}") for name in content]
    manifest = [
        ("sync", ".staging-000002"),
        ("sync", f".staging-000002/{MANIFEST}"),
        ("sync", ".staging-000002"),
    ]
    named = [
        ("rename", ".staging-000002 000002"),
        ("sync", "."),
        ("rename", "000001 .deleted-000001"),
    ]
    assert calls == before + manifest + named


def test_what_was_saved_is_what_is_found(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest() is None
    for step in range(4):
        save(checkpoints, step)
    assert steps(checkpoints) == [2, 3]
    for at_most, expected in ((None, 3), (5, 3), (2, 2)):
        found = checkpoints.newest(at_most)
        assert found is not None
        assert found.step == expected
        assert found.state == {"step": expected, "share": 1 / 3}
        assert steps_in(found) == {expected}
    assert checkpoints.newest(at_most=1) is None


def test_broken_checkpoints_and_those_of_steps_taken_back_never_push_out_whole_ones(
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path, keep=5)
    for step in range(1, 6):
        save(checkpoints, step)
    truncated(tmp_path / "checkpoints/000003/model.safetensors")
    again = Checkpoints(tmp_path, keep=2)
    found = again.newest(at_most=3)
    assert found is not None
    assert found.step == 2
    save(again, 3)
    assert steps(again) == [2, 3]
    newest = again.newest()
    assert newest is not None
    assert steps_in(newest) == {3}


def test_the_same_checkpoint_saved_again_is_left_alone_and_another_one_takes_its_place(
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path)
    first = save(checkpoints, 1).stat().st_ino
    assert save(checkpoints, 1).stat().st_ino == first
    checkpoints.save(1, writes("other"), {"other": True})
    found = checkpoints.newest()
    assert found is not None
    assert found.state == {"other": True}
    assert [path.name for path in checkpoints.folder.iterdir()] == ["000001"]


def test_a_disk_that_returns_something_else_is_noticed_before_the_old_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    save(checkpoints, 1)

    def lying(path: Path) -> None:
        if (path / "000002").exists():
            flipped(path / "000002/model.safetensors")

    monkeypatch.setattr("redqueen.ledger.checkpoint.sync", lying)
    with pytest.raises(
        StorageError, match=r"model.safetensors is damaged.*the disk or the memory is failing"
    ):
        save(checkpoints, 2)
    assert steps(checkpoints) == [1]


def test_a_mistake_in_what_writes_a_file_is_raised_as_it_is_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path)

    def wrong(folder: Path) -> list[Path]:
        (folder / "model").write_bytes(b"half")
        raise KeyError("slot")

    with pytest.raises(KeyError, match="slot"):
        checkpoints.save(1, wrong, {})
    with pytest.raises(ValueError, match="'model' was to be written"):
        checkpoints.save(1, lambda folder: [Path("model")], {})
    for name in ("../outside", "/outside", MANIFEST, STATE):
        with pytest.raises(ValueError, match="is no name for a file of a checkpoint"):
            checkpoints.save(1, lambda folder, name=name: [Path(name)], {})  # type: ignore[misc]
    assert list(checkpoints.folder.iterdir()) == []


def test_sweeping_removes_remains_and_touches_nothing_else(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.sweep()
    folder = save(checkpoints, 1)
    for name in (".staging-000002", ".deleted-000000"):
        shutil.copytree(folder, checkpoints.folder / name)
    for _ in range(2):
        checkpoints.sweep()
        assert [path.name for path in checkpoints.folder.iterdir()] == ["000001"]
