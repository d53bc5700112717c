"""The configuration: the sections that the stages own, from defaults, a sparse TOML file and `--set
a.b=c`, in that order."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, Field, PositiveFloat, ValidationError, model_validator

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.config.renamed import new_name
from redqueen.config.sandbox import SandboxConfig
from redqueen.config.section import Section
from redqueen.config.stages import (
    ArchiveConfig,
    EvolveConfig,
    FixedConfig,
    MatchConfig,
    ProposeConfig,
    RewardConfig,
    SolveConfig,
    UpdateConfig,
    VerifyConfig,
)
from redqueen.errors import ConfigError, unknown
from redqueen.tasks import TaskKind, load_kind
from redqueen.tasks.prompts import PromptFormat, load_prompt_format


class TasksConfig(Section):
    kinds: tuple[str, ...] = Field(default=("code_o", "code_i", "code_f"), min_length=1)
    """Sorts of problems to play: names, or import paths of your own (`module:Class`)."""
    prompt_format: Literal["auto", "chat", "compact"] = "auto"
    """Prompt prompt_format: `chat` for instruction-tuned models, `compact` for tiny ones; auto: what the
    base understands."""

    def load_kinds(self) -> dict[str, TaskKind]:
        return {name: load_kind(name) for name in self.kinds}

    def load_prompt_format(self, understood: str = "chat") -> PromptFormat:
        """The prompt_format to use, for a base that understands this one."""
        return load_prompt_format(
            understood if self.prompt_format == "auto" else self.prompt_format
        )


class PopulationConfig(Section):
    teachers: int = Field(default=4, ge=0)
    """Members that invent problems; none: the problems are fixed ones, and students learn from
    these alone."""
    students: int = Field(default=4, ge=1)
    """Members that solve them. In self-play these are all members, and each has both roles."""
    learning_rates: tuple[PositiveFloat, ...] = ()
    """Own learning rates of the first members, teachers before students: for sweeps within one run."""


class StopConfig(Section):
    steps_without_problem: int = Field(default=5, ge=1)
    """A run ends after so many steps in a row without a valid problem."""
    steps_without_update: int = Field(default=10, ge=1)
    """A run ends after so many steps in a row in which no member had anything to learn."""
    least_distance: float = Field(default=0.0, ge=0)
    """A run ends when two members of one role are closer than this in weight space, once they have
    learned; 0 ends none."""


class LedgerConfig(Section):
    checkpoint_every: int = Field(default=1, ge=1)
    """Steps between two checkpoints; the steps after the last one are played again by a resume."""
    keep: int = Field(default=2, ge=2)
    """Checkpoints that are kept."""
    snapshot_every: int = Field(default=0, ge=0)
    """Steps between two snapshots of all members' weights, which stay: what `redqueen crossplay`
    needs. 0 takes none."""


class EvaluateConfig(Section):
    suite: str = "heldout-quick"
    """Measured for the base and the students: heldout, heldout-quick or a benchmark, such as
    cruxeval-o; an empty text measures nothing."""
    every: int = Field(default=0, ge=0)
    """Steps between two measurements; 0 measures only at the end."""
    data: str = ""
    """Folder of benchmark files; empty: REDQUEEN_DATA, else the hub."""
    limit: int = Field(default=0, ge=0)
    """Only so many items: of a benchmark the first, else spread over the suite; 0: all."""


class Config(Section):
    seed: int = 0
    """The seed of every random stream."""
    steps: int = Field(default=200, ge=1)
    """Steps of a run."""
    base: str = "pawn"
    """The frozen model: `pawn`, a folder, a .gguf file, or owner/model on the hub."""
    device: str = "auto"
    """auto (the GPU where there is one), cpu, cuda or cuda:1."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the base; auto: bfloat16 on a GPU, else float32."""
    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Where else the figures of every step go; each is an optional extra. The ledger has them in
    any case."""
    population: PopulationConfig = PopulationConfig()
    lora: LoraConfig = LoraConfig()
    engine: EngineConfig = EngineConfig()
    match: MatchConfig = MatchConfig()
    tasks: TasksConfig = TasksConfig()
    archive: ArchiveConfig = ArchiveConfig()
    propose: ProposeConfig = ProposeConfig()
    fixed: FixedConfig = FixedConfig()
    verify: VerifyConfig = VerifyConfig()
    solve: SolveConfig = SolveConfig()
    reward: RewardConfig = RewardConfig()
    update: UpdateConfig = UpdateConfig()
    evolve: EvolveConfig = EvolveConfig()
    stop: StopConfig = StopConfig()
    ledger: LedgerConfig = LedgerConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    sandbox: SandboxConfig = SandboxConfig()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        population, scheme = self.population, self.match.scheme
        if scheme == "self_play" and population.teachers:
            raise ValueError(
                "in self-play every member has both roles: set population.teachers=0 and population.students to their number"
            )
        members = population.teachers + population.students
        if len(population.learning_rates) > members:
            raise ValueError(
                f"population.learning_rates has {len(population.learning_rates)} rates for {members} members"
            )
        if twice := sorted({kind for kind in self.tasks.kinds if self.tasks.kinds.count(kind) > 1}):
            raise ValueError(f"tasks.kinds names {', '.join(twice)} twice")
        if self.evolve.hall_of_fame.size and not self.is_rated:
            raise ValueError(
                "evolve.hall_of_fame needs rated teachers and students: not with fixed problems, nor in self-play"
            )
        return self

    @property
    def slots(self) -> int:
        """Places of a world in the engine: its members, and those of its hall of fame."""
        return (
            self.population.teachers + self.population.students + 2 * self.evolve.hall_of_fame.size
        )

    @property
    def is_fixed(self) -> bool:
        """Whether the problems are fixed ones: nobody invents any."""
        return self.population.teachers == 0 and self.match.scheme != "self_play"

    @property
    def is_rated(self) -> bool:
        """Whether games are played: teachers against students."""
        return self.population.teachers > 0


RECIPES = Path(__file__).parent / "recipes"


def find_recipe(name: str) -> Path:
    """A recipe of the package by its name, or a TOML file."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return path
    known = {found.stem: found for found in RECIPES.glob("*.toml")}
    if name not in known:
        raise ConfigError(unknown("recipe", name, known) + " A recipe of your own is a TOML file.")
    return known[name]


def load_config(path: Path | None = None, settings: Sequence[str] = ()) -> Config:
    """Defaults, then the file, then the settings; raises ConfigError with the place and the nearest
    name."""
    values: dict[str, Any] = {} if path is None else read_toml(path)
    if "arms" in values:
        raise ConfigError(f"{path} is a study: play it with `redqueen study`")
    for setting in settings:
        set_value(values, setting)
    return validated(values)


def config_from_toml(text: str) -> Config:
    """A config as `to_toml` wrote it."""
    return validated(tomllib.loads(text))


def validated(values: dict[str, Any]) -> Config:
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(item) for item in error.errors())) from error


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise ConfigError(f"there is no config file {path}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not a readable TOML file: {error}") from error


def set_value(values: dict[str, Any], setting: str) -> None:
    name, equals, text = setting.partition("=")
    if not equals or not all(name.split(".")):
        raise ConfigError(
            f"--set takes a name and a value, such as verify.cpu_s=2; got '{setting}'"
        )
    *sections, field = name.strip().split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {setting}: '{section}' is a setting, not a section")
    values[field] = _value(text.strip())


def _value(text: str) -> Any:
    """A TOML value; anything else is text, so that quotes may be left out."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explain(item: Any) -> str:
    path = [str(part) for part in item["loc"]]
    where = ".".join(path)
    if item["type"] == "extra_forbidden":
        if renamed := new_name(where):
            return f"{where} is now {renamed}"
        return f"{where}: " + unknown("setting", path[-1], _fields(path[:-1]))
    if item["type"] == "value_error" and isinstance(
        item["input"], dict
    ):  # about settings that do not go together: the message names them
        return f"{where}: {item['ctx']['error']}" if where else str(item["ctx"]["error"])
    return f"{where}: {item['msg']}; got {item['input']!r}"


def _fields(path: Sequence[str]) -> list[str]:
    """Names that are possible in a section. Sections in lists have numbers in their path, and
    variants their type."""
    sections: list[type[BaseModel]] = [Config]
    for name in path:
        fields = [
            section.model_fields[name] for section in sections if name in section.model_fields
        ]
        if fields:
            sections = [inner for field in fields for inner in _sections(field.annotation)]
        else:
            sections = [
                section for section in sections if section.model_fields["type"].default == name
            ] or sections
    return sorted({name for section in sections for name in section.model_fields})


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The sections within a type: itself, the variants of a union, the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for inner in get_args(annotation) for section in _sections(inner)]


def to_toml(config: Config) -> str:
    """Every setting with its value and what it means, as a file that `load_config` reads back."""
    return "\n".join(_toml_lines(config, "")) + "\n"


def _toml_lines(section: BaseModel, prefix: str) -> Iterator[str]:
    inner: list[tuple[str, BaseModel]] = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            inner.append((name, value))
            continue
        yield from (f"# {line}" for line in (field.description or "").splitlines())
        if value is None:  # TOML has no word for it
            yield f"# {name} = (none)"
            continue
        yield f"{name} = {_toml_value(value)}"
    for name, value in inner:
        yield f"\n[{prefix}{name}]"
        yield from _toml_lines(value, f"{prefix}{name}.")


def _toml_value(value: Any) -> str:
    """In one line, sections in lists included."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{name} = {_toml_value(item)}" for name, item in value.items()) + " }"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    return json.dumps(sorted(value) if isinstance(value, frozenset) else value)
