"""Where an export goes, and which world it comes from."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from redqueen.errors import ConfigError, explain_disk
from redqueen.report.run_view import RunView


def check_empty(out: Path) -> Path:
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise ConfigError(f"{out} is not empty: choose another folder with --out")
    return out


@contextmanager
def fill(folder: Path) -> Iterator[Path]:
    """Within: the folder is filled. It is whole afterwards, or not there."""
    try:
        with explain_disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
            yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def choose_world(views: Sequence[RunView], world: int | None) -> RunView:
    """The only world of a run, or the one that is named."""
    if world is None and len(views) > 1:
        names = ", ".join(view.name for view in views[:6])
        raise ConfigError(
            f"this run has {len(views)} worlds: choose one with --world, from 0 ({names})"
        )
    if world is not None and not 0 <= world < len(views):
        raise ConfigError(f"there is no world {world}: this run has {len(views)}, from 0")
    return views[world or 0]
