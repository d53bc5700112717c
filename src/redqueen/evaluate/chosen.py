"""Members of a run as what `redqueen eval` is pointed at: `RUN`, `RUN/S2`, or in a run of several
worlds `RUN/1/S2`. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redqueen.config.schema import Config
from redqueen.config.toml import config_from_toml
from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.figures import Population
from redqueen.ledger.checkpoint import Checkpoint
from redqueen.ledger.members import Saved, newest_checkpoint, saved_members
from redqueen.ledger.store import FILE, about_of, base_weights, reader

_GROUPS = {"students": ("student", "both"), "teachers": ("teacher", "both")}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A living member that is asked."""

    name: str
    """Such as S2, and in a run of several worlds 1/S2."""
    world: int
    saved: Saved


@dataclass(frozen=True, slots=True)
class Chosen:
    """Members of a run, as its newest checkpoint has them."""

    folder: Path
    checkpoint: Checkpoint
    config: Config
    arms: tuple[str, ...]
    """By world."""
    created: str
    weights: str
    """The fingerprint of the base; empty: the run does not say."""
    candidates: tuple[Candidate, ...]

    @property
    def step(self) -> int:
        return self.checkpoint.step

    @property
    def name(self) -> str:
        run = self.folder.resolve().name
        return run if len(self.candidates) > 1 else f"{run}/{self.candidates[0].name}"

    @property
    def worlds(self) -> tuple[int, ...]:
        """Those that have a member among them."""
        return tuple(dict.fromkeys(one.world for one in self.candidates))

    @property
    def populations(self) -> list[Population]:
        """Who counts together: in each world those that solve problems. A teacher is asked, but has
        no vote."""
        solving = {
            world: tuple(
                one.name
                for one in self.candidates
                if one.world == world and one.saved.role != "teacher"
            )
            for world in self.worlds
        }
        return [
            Population(world, self.arms[world], members)
            for world, members in solving.items()
            if len(members) > 1
        ]


def choose_members(target: str, wanted: Sequence[str], world: int | None) -> Chosen | None:
    """What TARGET, --member and --world choose; None where TARGET is no run."""
    place = _place(Path(target).expanduser())
    if place is None:
        if wanted or world is not None:
            raise ConfigError(
                f"--member and --world choose from a run, and there is none in {target}: it has no {FILE}"
            )
        return None
    folder, inner = place
    world = int(inner[0]) if len(inner) > 1 else world
    wanted = [*wanted, *inner[-1:]]
    connection = reader(folder)
    try:
        about = about_of(connection)
        arms = tuple(arm for (arm,) in connection.execute("SELECT arm FROM worlds ORDER BY world"))
    finally:
        connection.close()
    checkpoint = newest_checkpoint(folder)
    if world is not None and not 0 <= world < len(arms):
        raise ConfigError(f"there is no world {world}: this run has {len(arms)}, from 0")
    living = [
        Candidate(one.member if len(arms) == 1 else f"{number}/{one.member}", number, one)
        for number in range(len(arms))
        if world in (None, number)
        for one in saved_members(checkpoint, number)
    ]
    return Chosen(
        folder,
        checkpoint,
        config_from_toml(about["config"]),
        arms,
        about.get("created", ""),
        base_weights(about),
        tuple(_wanted(living, wanted)),
    )


def _place(path: Path) -> tuple[Path, tuple[str, ...]] | None:
    """The run's folder, and what is named within: a member, or a world and a member."""
    if (path / FILE).is_file():
        return path, ()
    if path.exists():  # a base or an adapter, wherever it is
        return None
    if (path.parent / FILE).is_file():
        return path.parent, (path.name,)
    if (path.parent.parent / FILE).is_file() and path.parent.name.isdecimal():
        return path.parent.parent, (path.parent.name, path.name)
    return None


def _wanted(living: Sequence[Candidate], wanted: Sequence[str]) -> list[Candidate]:
    """By id, or `students`, or `teachers`; all where nothing is wanted. In the order of the run."""
    for name in wanted:
        if not any(_is_wanted(one, name) for one in living):
            roles = [group for group in _GROUPS if any(_is_wanted(one, group) for one in living)]
            raise ConfigError(
                unknown(
                    "living member",
                    name,
                    [*dict.fromkeys(one.saved.member for one in living), *roles],
                )
            )
    return [one for one in living if not wanted or any(_is_wanted(one, name) for name in wanted)]


def _is_wanted(one: Candidate, name: str) -> bool:
    return name in (one.saved.member, one.name) or one.saved.role in _GROUPS.get(name, ())
