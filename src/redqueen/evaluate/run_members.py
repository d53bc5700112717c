"""Selects members of a run for evaluation: `RUN`, `RUN/S2`, or `RUN/1/S2` in a run of several
worlds. No torch here."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.config.schema import Config
from redqueen.config.toml import config_from_toml
from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.replies import Model
from redqueen.evaluate.saved_adapters import load_adapters
from redqueen.ledger.checkpoint import Checkpoint
from redqueen.ledger.members import SavedMember, newest_checkpoint, saved_members
from redqueen.ledger.store import FILE, about_of, base_weights, open_to_read

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

_ROLES = {"students": ("student", "both"), "teachers": ("teacher", "both")}


@dataclass(frozen=True, slots=True)
class RunMembers:
    """Living members of a run, as its newest checkpoint has them."""

    folder: Path
    checkpoint: Checkpoint
    config: Config
    created: str
    fingerprint: str
    """Of the base; empty: the run does not record it."""
    saved: tuple[SavedMember, ...]
    models: tuple[Model, ...]
    """One for each of `saved`, in the same order."""

    @property
    def name(self) -> str:
        run = self.folder.resolve().name
        return run if len(self.models) > 1 else f"{run}/{self.models[0].name}"


def find_run(source: str | Path) -> tuple[Path, tuple[str, ...]] | None:
    """The folder of the run that `source` points into, and what it names there: nothing, a member,
    or a world and a member. None where there is no run."""
    path = Path(source).expanduser()
    if (path / FILE).is_file():
        return path, ()
    if path.exists():  # a base or an adapter, wherever it is
        return None
    if (path.parent / FILE).is_file():
        return path.parent, (path.name,)
    if (path.parent.parent / FILE).is_file() and path.parent.name.isdecimal():
        return path.parent.parent, (path.parent.name, path.name)
    return None


def select_members(
    source: str | Path, names: Sequence[str] = (), world: int | None = None
) -> RunMembers | None:
    """Members by id, `students` or `teachers`; all where nothing is named. None where `source` is
    no run."""
    place = find_run(source)
    if place is None:
        if names or world is not None:
            raise ConfigError(
                f"--member and --world choose from a run, and there is none in {source}: "
                f"it has no {FILE}"
            )
        return None
    folder, inner = place
    world = int(inner[0]) if len(inner) > 1 else world
    with closing(open_to_read(folder)) as connection:
        about = about_of(connection)
        arms = [arm for (arm,) in connection.execute("SELECT arm FROM worlds ORDER BY world")]
    checkpoint = newest_checkpoint(folder)
    if world is not None and not 0 <= world < len(arms):
        raise ConfigError(f"there is no world {world}: this run has {len(arms)}, from 0")
    living = [
        (saved, _as_model(saved, number, arm, len(arms)))
        for number, arm in enumerate(arms)
        if world in (None, number)
        for saved in saved_members(checkpoint, number)
    ]
    selected = _select(living, [*names, *inner[-1:]])
    return RunMembers(
        folder,
        checkpoint,
        config_from_toml(about["config"]),
        about.get("created", ""),
        base_weights(about),
        tuple(saved for saved, _ in selected),
        tuple(model for _, model in selected),
    )


def load_members(selected: RunMembers, base: str | None) -> "list[Adapter]":
    """The weights of the selected members, in their order."""
    return load_adapters(selected.folder, selected.checkpoint, selected.saved, base)


def _as_model(saved: SavedMember, world: int, arm: str, worlds: int) -> Model:
    name = saved.id if worlds == 1 else f"{world}/{saved.id}"
    return Model(name, 0, saved.id, saved.role, world, arm)


def _select(
    living: Sequence[tuple[SavedMember, Model]], names: Sequence[str]
) -> list[tuple[SavedMember, Model]]:
    """In the order of the run."""
    models = [model for _, model in living]
    for name in names:
        if not any(_matches(model, name) for model in models):
            roles = [role for role in _ROLES if any(_matches(model, role) for model in models)]
            ids = dict.fromkeys(model.member for model in models)
            raise ConfigError(unknown("living member", name, [*ids, *roles]))
    return [
        (saved, model)
        for saved, model in living
        if not names or any(_matches(model, name) for name in names)
    ]


def _matches(model: Model, name: str) -> bool:
    return name in (model.member, model.name) or model.role in _ROLES.get(name, ())
