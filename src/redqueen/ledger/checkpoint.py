"""Checkpoints: one folder per step that is complete or not there, verified by checksum before it is
used.

What the files hold is the caller's business. A checkpoint is never changed once it has its name.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from redqueen.errors import StorageError
from redqueen.ledger.durable import make_folder, remove_tree, sync, sync_tree
from redqueen.ledger.manifest import MANIFEST, STATE, InvalidCheckpoint, manifest_of, read_state

_STAGING = ".staging-"
_DELETED = ".deleted-"
_log = logging.getLogger("redqueen.ledger")


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint: its files are in `folder`."""

    step: int
    folder: Path
    state: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run, of which the newest `keep` stay. Only the holder of the run's
    lock saves."""

    def __init__(self, run: Path, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"at least one checkpoint must be kept, not {keep}")
        self.run = run
        self.folder = run / "checkpoints"
        self.keep = keep
        self._verified: set[int] = set()  # steps whose checksums this process has checked

    def save(
        self,
        step: int,
        write: Callable[[Path], Sequence[Path]],
        state: Mapping[str, Any],
    ) -> Path:
        """Write a checkpoint, read it back, and only then delete older ones.

        `write` gets an empty folder and returns the files it wrote, relative to it. The state is
        JSON: text keys, no tuples. When this returns, the checkpoint is on the disk. Another
        checkpoint of this step, and those of later ones, were left by a run that was rolled back:
        they are replaced.
        """
        return self.write(step, write, json.dumps(state))

    def write(self, step: int, write: Callable[[Path], Sequence[Path]], state: str) -> Path:
        """The same with a state that is JSON already."""
        staging, final = self.folder / f"{_STAGING}{step:06d}", self._place(step)
        try:
            self._stage(staging, step, write, state)
            self._publish(staging, final)
        except (OSError, SafetensorError) as error:
            remove_tree(staging)
            raise self._failed(step, str(error)) from error
        except BaseException:
            remove_tree(staging)
            raise
        self._read_back(step)
        self._delete_old(step)
        return final

    def newest(self, at_most: int | None = None) -> Checkpoint | None:
        """The newest valid checkpoint, up to a step. Invalid ones are logged and skipped."""
        for step in reversed(self._steps()):
            if at_most is not None and step > at_most:
                continue
            folder = self._place(step)
            try:
                state = read_state(folder, step)
            except InvalidCheckpoint as error:
                if folder.exists():  # else the run that writes here has just deleted it
                    _log.warning(
                        "checkpoint %s cannot be used: %s. Looking for an older one.", folder, error
                    )
                continue
            self._verified.add(step)
            return Checkpoint(step, folder, state)
        return None

    def sweep(self) -> None:
        """Remove what a killed process has left half-written or half-deleted."""
        for prefix in (_STAGING, _DELETED):
            for folder in sorted(self.folder.glob(f"{prefix}*")):
                remove_tree(folder)

    def _stage(
        self,
        staging: Path,
        step: int,
        write: Callable[[Path], Sequence[Path]],
        state: str,
    ) -> None:
        make_folder(self.folder)
        remove_tree(staging)
        staging.mkdir()
        _check_files(staging, write(staging))
        (staging / STATE).write_text(state, encoding="utf-8")
        manifest = manifest_of(staging, step)
        sync_tree(staging)
        (staging / MANIFEST).write_bytes(manifest)
        sync(staging / MANIFEST)
        sync(staging)

    def _publish(self, staging: Path, final: Path) -> None:
        """Give the folder its name."""
        if final.exists():
            if (
                self._is_valid(int(final.name))
                and (staging / MANIFEST).read_bytes() == (final / MANIFEST).read_bytes()
            ):
                remove_tree(staging)
                return
            self._delete(final)
        staging.rename(final)
        sync(self.folder)

    def _read_back(self, step: int) -> None:
        try:
            read_state(self._place(step), step)
        except InvalidCheckpoint as error:
            self._delete(self._place(step))
            raise self._failed(
                step, f"it was read back differently ({error}): the disk or the memory is failing"
            ) from error
        self._verified.add(step)

    def _delete_old(self, step: int) -> None:
        """Keep the newest valid ones up to this step. Delete older ones, invalid ones, and those of
        steps that were rolled back."""
        kept = 0
        for other in reversed(self._steps()):
            if other <= step and kept < self.keep and self._is_valid(other):
                kept += 1
                continue
            try:
                self._delete(self._place(other))
            except OSError as error:
                _log.warning(
                    "the old checkpoint %s cannot be removed: %s. The run goes on; it takes up "
                    "space.",
                    self._place(other),
                    error,
                )

    def _is_valid(self, step: int) -> bool:
        if step not in self._verified:
            try:
                read_state(self._place(step), step)
            except InvalidCheckpoint:
                return False
            self._verified.add(step)
        return True

    def _delete(self, folder: Path) -> None:
        """Take the name away first: a folder with a step's name is never incomplete."""
        doomed = folder.with_name(f"{_DELETED}{folder.name}")
        remove_tree(doomed)
        folder.rename(doomed)
        self._verified.discard(int(folder.name))
        remove_tree(doomed)

    def _place(self, step: int) -> Path:
        return self.folder / f"{step:06d}"

    def _steps(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(
            int(path.name) for path in self.folder.iterdir() if re.fullmatch(r"\d{6,}", path.name)
        )

    def _failed(self, step: int, why: str) -> StorageError:
        return StorageError(
            f"the checkpoint of step {step} could not be written to {self.folder}: {why}. "
            "The checkpoints before it are intact. "
            f"Free space or repair the disk, then continue with: redqueen resume {self.run}"
        )


def _check_files(staging: Path, files: Sequence[Path]) -> None:
    for path in files:
        if path.is_absolute() or ".." in path.parts or str(path) in (MANIFEST, STATE):
            raise ValueError(f"'{path}' is no name for a file of a checkpoint")
        if not (staging / path).is_file():
            raise ValueError(f"'{path}' was to be written, but there is no such file")
