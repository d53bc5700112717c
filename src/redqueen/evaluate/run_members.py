"""Selects what is evaluated of a run: `RUN`, `RUN/S2`, `RUN/soup`, `RUN/chosen`, `RUN/vote`,
`RUN/router`, or `RUN/1/S2` in a run of several worlds. No torch here."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from redqueen.config.registry import Choice
from redqueen.config.schema import Config
from redqueen.config.toml import config_from_toml
from redqueen.core.build import read_arms
from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.replies import CHOSEN, ROUTER, SOUP, VOTE, Model
from redqueen.evaluate.saved_adapters import load_adapters
from redqueen.ledger.checkpoint import Checkpoint
from redqueen.ledger.members import SavedMember, newest_checkpoint, saved_members
from redqueen.ledger.packed import is_packed
from redqueen.ledger.store import FILE, about_of, base_weights, open_to_read
from redqueen.records import Rating, Role

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

_ROLES = {
    "students": ("student", "both"),
    VOTE: ("student", "both"),
    ROUTER: ("student", "both"),
    "teachers": ("teacher", "both"),
}


class Living(Protocol):
    """A member, of a live run or of a checkpoint."""

    @property
    def id(self) -> str: ...

    @property
    def role(self) -> Role: ...

    @property
    def rating(self) -> Rating: ...


@dataclass(frozen=True, slots=True)
class RunMembers:
    """Living members of a run, as its newest checkpoint has them, and what it hands over."""

    folder: Path
    checkpoint: Checkpoint
    config: Config
    created: str
    fingerprint: str
    """Of the base; empty: the run does not record it."""
    models: tuple[Model, ...]
    saved: tuple[tuple[SavedMember, ...], ...]
    """Whose weights each of `models` has: those of one member, or of several that are merged."""
    merges: tuple[Choice, ...]
    """How each world merges its students."""
    votes: bool = False
    """Whether the students are asked for their vote."""
    routes: bool = False
    """Whether each task kind is asked of one of the students."""

    @property
    def name(self) -> str:
        run = self.folder.resolve().name
        if self.votes or self.routes:
            return f"{run}/{VOTE if self.votes else ROUTER}"
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
    no run. Their weights are read later, by `load_members`: a run that goes on may delete the
    checkpoint until then."""
    if is_packed(Path(source)):
        raise ConfigError(f"{source} is a packed ledger: it has no members")
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
    arms = read_arms(folder)
    checkpoint = newest_checkpoint(folder)
    check_world(world, len(arms))
    names = [*names, *inner[-1:]]
    known: list[tuple[Model, tuple[SavedMember, ...]]] = []
    for number, (arm, _) in enumerate(arms):
        if world in (None, number):
            living = saved_members(checkpoint, number)
            students = tuple(one for one in living if one.role != "teacher")
            fittest = checkpoint.state["worlds"][number].get("chosen", "")
            models = world_models(living, number, arm, len(arms), fittest)
            sources = [*((one,) for one in living), students]
            known += zip(models, sources, strict=False)
    models = [replace(model, slot=place) for place, (model, _) in enumerate(known)]
    selected = select_models(models, names)
    return RunMembers(
        folder,
        checkpoint,
        config_from_toml(about["config"], imports=False),
        about.get("created", ""),
        base_weights(about),
        tuple(selected),
        tuple(known[model.slot][1] for model in selected),
        tuple(config.evolve.merge for _, config in arms),
        VOTE in names,
        ROUTER in names,
    )


def load_members(selected: RunMembers, base: str | None) -> "list[Adapter]":
    """The weights of the selected models, in their order."""
    from redqueen.stages.evolve.merge import merge_adapters

    saved = list(dict.fromkeys(one for group in selected.saved for one in group))
    loaded = load_adapters(selected.folder, selected.checkpoint, saved, base)
    adapters = dict(zip(saved, loaded, strict=True))
    return [
        merge_adapters([adapters[one] for one in group], selected.merges[model.world])
        if len(group) > 1
        else adapters[group[0]]
        for model, group in zip(selected.models, selected.saved, strict=True)
    ]


def check_world(world: int | None, count: int) -> None:
    if world is not None and not 0 <= world < count:
        raise ConfigError(f"there is no world {world}: this run has {count}, from 0")


def world_models(
    living: Sequence[Living], world: int, arm: str, worlds: int, fittest: str
) -> list[Model]:
    """The members of a world, in their order, and then the soup of its students, where there are
    several."""
    students = [member for member in living if member.role != "teacher"]
    chosen = _choose(students, fittest)

    def model(member: str, role: str) -> Model:
        name = member if worlds == 1 else f"{world}/{member}"
        is_chosen = member == chosen
        return Model(name, 0, member, role, world, arm, chosen=is_chosen, students=len(students))

    soup = [model(SOUP, SOUP)] if len(students) > 1 else []
    return [*(model(member.id, member.role) for member in living), *soup]


def _choose(students: Sequence[Living], fittest: str) -> str:
    """The student that the run's own fitness puts first, never held-out data; where that one is
    gone, or fitness was never judged, by the rating's lower bound."""
    if not students or fittest in [student.id for student in students]:
        return fittest
    return max(students, key=lambda student: student.rating.bound).id


def select_models(models: Sequence[Model], names: Sequence[str]) -> list[Model]:
    """Those that are named by id, `students`, `teachers`, `soup`, `chosen`, `vote` or `router`; all
    where nothing is named. In the order of the run."""
    for name in (VOTE, ROUTER):
        if name in names and len(names) > 1:
            raise ConfigError(f"a {name} is measured by itself; got {' and '.join(names)}")
    for name in names:
        if not any(_matches(model, name) for model in models):
            groups = [*_ROLES, CHOSEN]
            groups = [group for group in groups if any(_matches(model, group) for model in models)]
            ids = dict.fromkeys(model.member for model in models)
            raise ConfigError(unknown("living member", name, [*ids, *groups, VOTE, ROUTER]))
    selected = [
        model for model in models if not names or any(_matches(model, name) for name in names)
    ]
    return [_as_chosen(model) for model in selected] if list(names) == [CHOSEN] else selected


def _as_chosen(model: Model) -> Model:
    return replace(model, name=model.name.removesuffix(model.member) + CHOSEN, member=CHOSEN)


def _matches(model: Model, name: str) -> bool:
    if name == CHOSEN:
        return model.chosen
    if name == SOUP:
        return model.role == SOUP or (model.is_solver and model.students == 1)
    return name in (model.member, model.name) or model.role in _ROLES.get(name, ())
