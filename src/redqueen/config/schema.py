"""The configuration of a run: all sections together."""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeFloat, field_validator, model_validator

from redqueen.config.engine import EngineConfig, LoraConfig, placement_defaults
from redqueen.config.games import Games, check_games
from redqueen.config.registry import UnreadChoice, name_from, table
from redqueen.config.sandbox import SandboxConfig
from redqueen.config.section import Section
from redqueen.config.stages import (
    ArchiveConfig,
    EvolveConfig,
    FixedConfig,
    MatchConfig,
    ProposeConfig,
    RateConfig,
    RewardConfig,
    SolveConfig,
    UpdateConfig,
    VerifyConfig,
    WarmupConfig,
)
from redqueen.errors import unknown

_LARGEST_STEP = 10_000_000


class TasksConfig(Section):
    kinds: tuple[Annotated[str, name_from("task kind")], ...] = Field(
        default=("code_o", "code_i", "code_f"), min_length=1
    )
    """Kinds of problems to play: names, or import paths of your own (`module:Class`)."""
    prompt_format: Annotated[str, name_from("prompt format", "auto")] = "auto"
    """`chat` for instruction-tuned models, `compact` for tiny ones, or an import path; auto: what
    the base understands."""


class PopulationConfig(Section):
    teachers: int = Field(default=4, ge=0)
    """Members that invent problems; none: the problems are fixed ones, and students learn from
    these alone."""
    students: int = Field(default=4, ge=1)
    """Members that solve them. In self-play these are all members, and each has both roles."""
    learning_rates: tuple[NonNegativeFloat, ...] = ()
    """Learning rates of the first members, teachers before students: for sweeps in one run."""


class StopConfig(Section):
    steps_without_problem: int = Field(default=5, ge=1)
    """A run ends after so many steps in a row without a valid problem."""
    steps_without_update: int = Field(default=10, ge=1)
    """A run ends after so many steps in a row in which no member had anything to learn."""
    tokens: int = Field(default=0, ge=0)
    """A world ends when it has trained on so many tokens, all members together; 0: it plays all
    steps. For arms of equal cost."""
    drift: dict[str, float] = Field(default_factory=dict)
    """A world ends when problems have looked suspicious for `drift_steps` steps: the largest values
    of metrics below `drift/`, by name, such as { answer_trivial = 0.5, "answer_top/code_o" = 0.6 }.
    A name without a kind means every kind."""
    drift_steps: int = Field(default=5, ge=1)
    """Steps in a row above one of these values that end a world."""
    least_distance: float = Field(default=0.0, ge=0)
    """A run ends when two members of one role are closer than this in weight space, once they have
    learned; 0 ends none."""


class LedgerConfig(Section):
    checkpoint_every: int = Field(default=1, ge=1)
    """Steps between two checkpoints; the steps after the last one are played again by a resume."""
    keep: int = Field(default=2, ge=2)
    """Checkpoints that are kept."""
    background: Literal["auto"] | bool = "auto"
    """Write checkpoints while the next step is played, from a copy in main memory. A kill may then
    cost the step before it, too, which a resume plays again. auto: beside a GPU; on a CPU the
    writer would take a core from what it is to speed up."""
    checkpoint_optimizer: bool = True
    """Keep the optimizers' moments in checkpoints: two thirds of their size. Without them a resume
    goes on with new optimizers, whose rates rise again over update.warmup_steps, and so not as if
    the run had never stopped; the ledger says at which step."""
    checkpoint_dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the members' weights in checkpoints. A resume from bfloat16 is not exact, either."""
    snapshot_every: int = Field(default=0, ge=0)
    """Steps between two snapshots of all members' weights, which stay: what `redqueen crossplay`
    needs. 0 takes none."""


MEMBER_GROUPS = ("students", "teachers", "soup", "chosen", "vote", "router")
"""What members can be measured as, beside themselves."""
_ALONE = ("vote", "router")
_MEMBER = re.compile(r"(\d+/)?[TSB]\d+(\.\d+)?")


class EvaluateConfig(Section):
    suite: str = "heldout-quick"
    """Measured for the base and `members`: heldout, heldout-quick, heldout-deduction,
    heldout-large, heldout-critique, a benchmark, such as cruxeval-o, a JSONL file of verified
    problems, or an import path; an empty text measures nothing."""
    others: tuple[str, ...] = ()
    """Further suites that are measured at the same steps, each with the same limit, without a
    vote."""
    members: tuple[str, ...] = ("students", "soup")
    """Who is measured: `students`, `teachers`, `soup`, `chosen`, or a member's name."""
    every: int = Field(default=0, ge=0)
    """Steps between two measurements; 0 measures only at the end."""
    between: tuple[str, ...] = ()
    """Who is measured before the end, where fewer will do for a curve; empty: `members`."""
    data: str = ""
    """Folder of benchmark files; empty: REDQUEEN_DATA, else the hub."""
    limit: int = Field(default=0, ge=0)
    """Only so many items: of a benchmark the first, else spread over the suite; 0: all."""
    votes: int = Field(default=0, ge=0, le=10_000)
    """Votes on each item at the end, split between the students; the base has as many. 0: as many
    as the largest population has students; 1: no vote."""
    vote_limit: int = Field(default=0, ge=0)
    """Items that are voted on, where fewer will do; 0: as many as `limit`."""
    outcomes: tuple[str, ...] = ()
    """What a study is decided by, as `redqueen compare` names it, such as `heldout: soup`: their
    p values are adjusted for their number, all others are exploratory."""

    @field_validator("members", "between")
    @classmethod
    def _check_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Before a run, and not at its end."""
        for name in names:
            if name not in MEMBER_GROUPS and not _MEMBER.fullmatch(name):
                raise ValueError(
                    unknown("member", name, MEMBER_GROUPS) + " Or a member's name: S2."
                )
            if name in _ALONE and len(names) > 1:
                raise ValueError(f"a {name} is measured by itself; got {' and '.join(names)}")
        return names


class Config(Section):
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    """The seed of every random stream."""
    steps: int = Field(default=200, ge=1, le=10**9)
    """Steps of a run."""
    base: str = "pawn"
    """The frozen model: `pawn`, `pawn-games` (which has learned games and logic puzzles, too), a
    folder, a .gguf file, or owner/model on the hub."""
    device: str = "auto"
    """auto (the GPU where there is one), cpu, cuda or cuda:1."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the base; auto: bfloat16 on a GPU, else float32."""
    trackers: tuple[Annotated[str, name_from("tracker")], ...] = ()
    """Where else the metrics of every step go: tensorboard, wandb, trackio, mlflow (optional
    extras), or import paths of your own (`module:Class`). The ledger has them in any case."""
    games: Games = Field(default={"race": 1.0}, validate_default=True)
    """What students do with the problems of a step, by share. Every problem is attempted, as in the
    race. A share is the chance that a problem is then played further as this game: `critique`
    (another student says whether an attempt is correct), `repair` (its author answers again after a
    critique), `debate` (two students defend different answers, a third judges), or one of your own.
    Each problem draws its game for itself; one that cannot be played so, such as a debate about a
    problem that nobody solved, stays with the race, and so do problems replayed from the archive.
    `race` is what the other shares leave of 1. A game with settings is a table: `critique = { share
    = 0.2, samples = 4 }`."""
    population: PopulationConfig = Field(default_factory=PopulationConfig)
    lora: LoraConfig = Field(default_factory=LoraConfig)
    engine: EngineConfig = Field(default_factory=EngineConfig)
    match: MatchConfig = Field(default_factory=MatchConfig)
    rate: RateConfig = Field(default_factory=RateConfig)
    tasks: TasksConfig = Field(default_factory=TasksConfig)
    archive: ArchiveConfig = Field(default_factory=ArchiveConfig)
    warmup: WarmupConfig = Field(default_factory=WarmupConfig)
    propose: ProposeConfig = Field(default_factory=ProposeConfig)
    fixed: FixedConfig = Field(default_factory=FixedConfig)
    verify: VerifyConfig = Field(default_factory=VerifyConfig)
    solve: SolveConfig = Field(default_factory=SolveConfig)
    reward: RewardConfig = Field(default_factory=RewardConfig)
    update: UpdateConfig = Field(default_factory=UpdateConfig)
    evolve: EvolveConfig = Field(default_factory=EvolveConfig)
    stop: StopConfig = Field(default_factory=StopConfig)
    ledger: LedgerConfig = Field(default_factory=LedgerConfig)
    evaluate: EvaluateConfig = Field(default_factory=EvaluateConfig)
    sandbox: SandboxConfig = Field(default_factory=SandboxConfig)

    @model_validator(mode="after")
    def _check(self) -> Self:
        population = self.population
        if self.has_both_roles and population.teachers:
            raise ValueError(
                f"with match.scheme={self.match.scheme.type} every member has both roles: set "
                "population.teachers=0 and population.students to their number"
            )
        if self.match.scheme.type == "cross_play" and population.students < 2:
            raise ValueError("match.scheme=cross_play needs two members: population.students=2")
        members = population.teachers + population.students
        if len(population.learning_rates) > members:
            raise ValueError(
                f"population.learning_rates has {len(population.learning_rates)} rates for "
                f"{members} members"
            )
        check_games(self.games, population.students)
        if twice := sorted({kind for kind in self.tasks.kinds if self.tasks.kinds.count(kind) > 1}):
            raise ValueError(f"tasks.kinds names {', '.join(twice)} twice")
        several = self.match.students_per_problem
        if several > min(population.students, self.solve.attempts):
            raise ValueError(
                f"match.students_per_problem={several}: there are {population.students} students, "
                f"and {self.solve.attempts} attempts to split between them"
            )
        if self.reward.teacher.type == "regret" and several < 2:
            raise ValueError(
                "reward.teacher=regret compares students: set match.students_per_problem=2 or more"
            )
        if self.largest_step > _LARGEST_STEP:
            raise ValueError(
                f"a step would have {self.largest_step:,} attempts, more than the "
                f"{_LARGEST_STEP:,} that are possible: lower population, propose.prompts, "
                "propose.samples or solve.attempts"
            )
        ledger = self.ledger
        exact = ledger.checkpoint_optimizer and ledger.checkpoint_dtype == "float32"
        if self.engine.type in ("processes", "ray") and not exact:
            raise ValueError(
                f"engine.type={self.engine.type} restores lost workers from checkpoints, to the "
                "bit: leave ledger.checkpoint_optimizer and ledger.checkpoint_dtype as they are"
            )
        if self.evolve.hall_of_fame.size and not self.is_rated:
            raise ValueError(
                "evolve.hall_of_fame needs rated teachers and students: not with fixed problems, "
                "nor in self-play"
            )
        return self

    def with_settings(self, **changes: Any) -> Self:
        """The config with other settings, section by section, checked anew."""
        return type(self).model_validate(merge(self.model_dump(), changes))

    @property
    def without_placement(self) -> Self:
        """The settings that records follow from: not those that say where they are computed."""
        engine, sandbox = self.engine, self.sandbox
        if engine.type in ("torch", "processes", "ray"):
            engine = engine.model_copy(update=placement_defaults())
        if sandbox.type == "ray":
            fields = SandboxConfig.model_fields
            names = ("type", "workers", "cores", "address")
            sandbox = sandbox.model_copy(update={name: fields[name].default for name in names})
        return self.model_copy(update={"engine": engine, "sandbox": sandbox})

    @property
    def slots(self) -> int:
        """Adapter slots of a world: its members, and those of its hall of fame."""
        population = self.population
        return population.teachers + population.students + 2 * self.evolve.hall_of_fame.size

    @property
    def largest_step(self) -> int:
        """Attempts of a step in which every proposal is a problem."""
        proposals = len(self.tasks.kinds) * self.propose.prompts * self.propose.samples
        return (
            (self.population.teachers or self.population.students)
            * proposals
            * (self.solve.attempts)
        )

    @property
    def has_both_roles(self) -> bool:
        """Whether every member is teacher and student."""
        scheme = self.match.scheme
        if isinstance(scheme, UnreadChoice):
            return False
        return bool(getattr(table("match scheme")[scheme.type], "both_roles", False))

    @property
    def is_fixed(self) -> bool:
        """Whether the problems are fixed ones: nobody invents any."""
        return self.population.teachers == 0 and not self.has_both_roles

    @property
    def is_evolving(self) -> bool:
        """Whether members can be replaced. Fixed problems and self-play are controls."""
        return self.is_rated or self.match.scheme.type == "cross_play"

    @property
    def is_rated(self) -> bool:
        """Whether games are played: teachers against students."""
        return self.population.teachers > 0


def merge(
    first: Mapping[str, Any], second: Mapping[str, Any], *, sections: bool = True
) -> dict[str, Any]:
    """The second over the first, table by table. Within sections, a choice of another type replaces
    the whole table: the settings of the first are not those of the second. A name stands for a
    table with this `type`."""
    merged = dict(deepcopy(first))
    for name, value in second.items():
        own = merged.get(name)
        if isinstance(own, str):
            own = {"type": own}
        if (
            isinstance(value, Mapping)
            and isinstance(own, Mapping)
            and (sections or own.get("type") in (None, value.get("type", own.get("type"))))
        ):
            merged[name] = merge(own, value, sections=False)
        else:
            merged[name] = deepcopy(value)
    return merged
