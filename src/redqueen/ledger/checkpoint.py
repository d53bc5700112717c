"""Checkpoints: a folder for each step that is there whole or not at all, checked by checksum before
it is believed.

What is in the files is the caller's: each is written by a function. A checkpoint is never changed
once it has its name.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from redqueen.errors import StorageError
from redqueen.ledger.durable import make_folder, remove_tree, sync, sync_tree
from redqueen.ledger.manifest import MANIFEST, STATE, Broken, manifest_of, read_state

_STAGING = ".staging-"
_DELETED = ".deleted-"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found whole: its files in `folder`, and what was given as `state`."""

    step: int
    folder: Path
    state: dict[str, Any]


def _to_stderr(message: str) -> None:
    sys.stderr.write(f"{message}\n")


class Checkpoints:
    """The checkpoints of one run; at most `keep` stay. One process saves, the holder of the run's
    lock."""

    def __init__(
        self, folder: Path, keep: int = 2, say: Callable[[str], None] = _to_stderr
    ) -> None:
        if keep < 1:
            raise ValueError(f"at least one checkpoint must be kept, not {keep}")
        self.run = folder
        self.folder = folder / "checkpoints"
        self.keep = keep
        self._say = say
        self._whole: set[int] = set()  # steps that this process has read and found whole

    def save(
        self, step: int, files: Mapping[str, Callable[[Path], object]], state: Mapping[str, Any]
    ) -> Path:
        """Write a checkpoint, read it back, and only then let older ones go.

        A name may hold slashes, and what its function writes may be a file or a folder. The state
        is JSON: text keys, no tuples. When this returns, the checkpoint is on the disk. A
        checkpoint of a later step, or another one of the same step, belongs to a course of the run
        that was taken back, and gives way.
        """
        staging = self.folder / f"{_STAGING}{step:06d}"
        final = self.folder / f"{step:06d}"
        try:
            self._stage(staging, step, files, state)
            self._put(staging, final)
        except (OSError, SafetensorError) as error:
            remove_tree(staging)
            raise self._failed(step, str(error)) from error
        except BaseException:
            remove_tree(staging)
            raise
        self._read_back(step, final)
        self._retain(step)
        return final

    def newest(self, at_most: int | None = None) -> Checkpoint | None:
        """The newest whole checkpoint, up to a step. What is broken is said and passed over."""
        for step in reversed(self._steps()):
            if at_most is not None and step > at_most:
                continue
            folder = self.folder / f"{step:06d}"
            try:
                state = read_state(folder, step)
            except Broken as broken:
                if folder.exists():  # else a run that goes on has let it go just now
                    self._say(
                        f"checkpoint {folder} cannot be used: {broken}. Looking for an older one."
                    )
                continue
            self._whole.add(step)
            return Checkpoint(step, folder, state)
        return None

    def sweep(self) -> None:
        """Remove what a killed process has left half-written or half-deleted."""
        for mark in (_STAGING, _DELETED):
            for folder in sorted(self.folder.glob(f"{mark}*")):
                remove_tree(folder)

    def _stage(
        self,
        staging: Path,
        step: int,
        files: Mapping[str, Callable[[Path], object]],
        state: Mapping[str, Any],
    ) -> None:
        make_folder(self.folder)
        remove_tree(staging)
        staging.mkdir()
        for name, write in files.items():
            path = _inside(staging, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
            if not path.exists():
                raise ValueError(f"the function for '{name}' wrote no such file or folder")
        (staging / STATE).write_text(json.dumps(state), encoding="utf-8")
        manifest = manifest_of(staging, step)
        sync_tree(staging)
        (staging / MANIFEST).write_bytes(manifest)
        sync(staging / MANIFEST)
        sync(staging)

    def _put(self, staging: Path, final: Path) -> None:
        if final.exists():
            if (
                self._is_whole(int(final.name))
                and (staging / MANIFEST).read_bytes() == (final / MANIFEST).read_bytes()
            ):
                remove_tree(staging)
                return
            self._delete(final)
        staging.rename(final)
        sync(self.folder)

    def _read_back(self, step: int, folder: Path) -> None:
        try:
            read_state(folder, step)
        except Broken as broken:
            self._delete(folder)
            raise self._failed(
                step,
                f"what was read back is not what was written ({broken}): the disk or the memory fails",
            ) from broken
        self._whole.add(step)

    def _retain(self, step: int) -> None:
        """Keep the newest whole ones up to this step; the rest goes: older ones, broken ones, and
        those of steps that were taken back."""
        kept = 0
        for other in reversed(self._steps()):
            if other <= step and kept < self.keep and self._is_whole(other):
                kept += 1
                continue
            try:
                self._delete(self.folder / f"{other:06d}")
            except OSError as error:
                self._say(
                    f"the old checkpoint {self.folder / f'{other:06d}'} cannot be removed: {error}. The run goes on; it takes up space."
                )

    def _is_whole(self, step: int) -> bool:
        if step not in self._whole:
            try:
                read_state(self.folder / f"{step:06d}", step)
            except Broken:
                return False
            self._whole.add(step)
        return True

    def _delete(self, folder: Path) -> None:
        """Take the name away first: a folder with a step's name is never half there."""
        doomed = folder.with_name(f"{_DELETED}{folder.name}")
        remove_tree(doomed)
        folder.rename(doomed)
        self._whole.discard(int(folder.name))
        remove_tree(doomed)

    def _steps(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(
            int(path.name) for path in self.folder.iterdir() if re.fullmatch(r"\d{6,}", path.name)
        )

    def _failed(self, step: int, why: str) -> StorageError:
        return StorageError(
            f"the checkpoint of step {step} could not be written to {self.folder}: {why}. The checkpoints before it are intact. "
            f"Free space or mend the disk, then go on with: redqueen resume {self.run}"
        )


def _inside(staging: Path, name: str) -> Path:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or parts[0] in (MANIFEST, STATE):
        raise ValueError(f"'{name}' is no name for a file of a checkpoint")
    return staging / name
