"""A new run that begins as another one stands after its newest checkpoint, with other settings.

The records up to there are copied, so that every problem and ancestor of the new run can be looked
up in its own ledger, which says where it comes from: the name `origin` in its table `run`. With
equal settings it plays on as the first run would have.
"""

import json
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from redqueen.config.schema import Config
from redqueen.config.toml import set_value, to_toml, validate
from redqueen.core.build import Arm, check_arms, read_arms, today, world_rows
from redqueen.errors import ConfigError, explain_disk
from redqueen.ledger.checkpoint import Checkpoint, Checkpoints
from redqueen.ledger.durable import make_folder, remove_tree, sync, walk
from redqueen.ledger.lock import RunLock
from redqueen.ledger.manifest import MANIFEST, STATE
from redqueen.ledger.members import newest_checkpoint, read_newest
from redqueen.ledger.opening import check_resumable, make_durable
from redqueen.ledger.store import FILE, Ledger, open_to_read, refuse_what_is_there

_NEW = ".run.sqlite.fork"
FIXED = ("base", "dtype", "lora", "population", "evolve.hall_of_fame.size", "archive.seeds")
"""Settings that a checkpoint has to fit, or that have had their effect: a fork cannot change
them."""


def fork_run(source: Path, folder: Path, settings: Sequence[str]) -> int:
    """Make the new run, ready to be resumed; returns the step that it begins after. What cannot be
    done is refused before anything is written."""
    if not (source / FILE).exists():
        raise ConfigError(f"there is no run in {source}: `redqueen runs` lists those there are")
    check_resumable(source)
    refuse_what_is_there(folder)
    before = read_arms(source)
    arms = [(arm, _change(config, settings)) for arm, config in before]
    check_arms(arms)
    changed = _check(before, arms)
    _check_steps(arms[0][1], source, newest_checkpoint(source).step)
    try:
        with explain_disk(folder), RunLock(folder):
            step = read_newest(source, lambda one: _copy_checkpoint(one, folder))
            _copy_ledger(source, folder, step, changed, arms)
    except BaseException:
        remove_tree(folder)
        raise
    return step


def _change(config: Config, settings: Sequence[str]) -> Config:
    values = config.model_dump(mode="json")
    for setting in settings:
        set_value(values, setting)
    return validate(values)


def _check(before: Sequence[Arm], after: Sequence[Arm]) -> dict[str, Any]:
    """The settings that differ, by path, as the fork has them; raises where one may not."""
    changed: dict[str, Any] = {}
    for (_, old), (_, new) in zip(before, after, strict=True):
        values = flatten(old.model_dump(mode="json"))
        for path, value in flatten(new.model_dump(mode="json")).items():
            if values.get(path) != value:
                changed[path] = value
        own = {kind for kind in old.tasks.kinds if ":" in kind}
        if lost := sorted(own - {*new.tasks.kinds}):
            raise ConfigError(
                f"tasks.kinds has to keep {', '.join(lost)}: the archive has problems of it"
            )
        if (old.has_both_roles, old.is_fixed) != (new.has_both_roles, new.is_fixed):
            raise ConfigError(
                "a fork keeps its members and their roles: match.scheme is not one "
                "that these members can play"
            )
    for path in changed:
        if any(path == fixed or path.startswith(f"{fixed}.") for fixed in FIXED):
            raise ConfigError(
                f"{path} cannot change in a fork: its members and its archive are those of the "
                "first run. Begin a new run with `redqueen run`."
            )
    return changed


def _check_steps(config: Config, source: Path, step: int) -> None:
    if config.steps <= step:
        raise ConfigError(
            f"the run in {source} has played {step} of {config.steps} steps: say how far the fork "
            f"is to go, such as --set steps={2 * step or 1}"
        )


def flatten(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables by path, such as update.learning_rate."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = flatten(value, f"{before}{name}.") if isinstance(value, Mapping) else {}
        flat |= inner or {f"{before}{name}": value}
    return flat


def _copy_checkpoint(checkpoint: Checkpoint, folder: Path) -> int:
    """What stopped the first run need not stop this one: its counters begin anew."""
    anew = {"stopped": "", "steps_without_problem": 0, "steps_without_update": 0}
    worlds = [
        {**world, **(anew if world["stopped"] else {})} for world in checkpoint.state["worlds"]
    ]
    names = [
        path.relative_to(checkpoint.folder) for path in walk(checkpoint.folder) if path.is_file()
    ]
    files = [name for name in names if str(name) not in (MANIFEST, STATE)]

    def copy(target: Path) -> list[Path]:
        for name in files:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkpoint.folder / name, target / name)
        return files

    Checkpoints(folder).save(checkpoint.step, copy, {**checkpoint.state, "worlds": worlds})
    return checkpoint.step


def _copy_ledger(
    source: Path, folder: Path, step: int, changed: Mapping[str, Any], arms: Sequence[Arm]
) -> None:
    """The file gets its name last: before that, nothing here looks like a run."""
    make_folder(folder)
    (folder / _NEW).unlink(missing_ok=True)
    with (
        closing(open_to_read(source)) as old,
        closing(sqlite3.connect(folder / _NEW, isolation_level=None)) as new,
    ):
        old.backup(new)
        make_durable(new)
    with Ledger(folder, sqlite3.connect(folder / _NEW, isolation_level=None)) as ledger:
        ledger.truncate(step)
        origin = {"run": source.resolve().name, "created": ledger.about.get("created", "")}
        about = {
            "config": to_toml(arms[0][1]),
            "steps": str(arms[0][1].steps),
            "origin": json.dumps({**origin, "step": step, "settings": changed}),
            "created": today(),
            **{name: "" for name in ledger.about if name.startswith("ended")},
        }
        rows = [{"name": name, "value": value} for name, value in about.items()]
        ledger.add_tables({"run": rows, "worlds": world_rows(arms)})
    sync(folder / _NEW)
    (folder / _NEW).rename(folder / FILE)
    sync(folder)
