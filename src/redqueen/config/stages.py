"""Settings of the stages of a step, and of what they share. Every choice is open: a name of a
table, or an import path of your own (`registry.py`)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat, field_serializer, model_validator

from redqueen.config.modules import ALLOWED_MODULES
from redqueen.config.registry import OneOf, chosen_from, default
from redqueen.config.section import Section

_LARGEST_TIER = 10


def _check_tiers(tiers: tuple[int, int]) -> tuple[int, int]:
    if not 1 <= tiers[0] <= tiers[1] <= _LARGEST_TIER:
        raise ValueError(
            f"the lowest and the highest tier, from 1 to {_LARGEST_TIER}; got {list(tiers)}"
        )
    return tiers


def _check_order(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"the smaller one first; got {list(bounds)}")
    return bounds


Tiers = Annotated[tuple[int, int], AfterValidator(_check_tiers)]


class MatchConfig(Section):
    scheme: Annotated[OneOf, chosen_from("match scheme", "pfsp")] = default("pfsp")
    """Who plays whom: pfsp (near-balanced pairings are likelier), uniform, round_robin, or
    self_play (every member solves its own problems, unrated: Absolute Zero), or cross_play (every
    member solves another's, unrated)."""
    students_per_problem: int = Field(default=1, ge=1)
    """Students that attempt a problem; solve.attempts are split between them."""


class RateConfig(Section):
    outcome: Annotated[OneOf, chosen_from("rating outcome", "by_role")] = default("by_role")
    """What wins a game. by_role: the student is rated by its solve rate over valid problems against
    the expected one, the teacher by its mean reward against that of the step's teachers. paper: one
    game for both, by the solve rate. threshold: the same against a fixed rate. per_problem: every
    valid problem is a game of its own, against the threshold."""
    mu: float = 25.0
    """Skill that a new member is given."""
    sigma: float = Field(default=25.0 / 3, gt=0)
    """How uncertain that is."""
    beta: float = Field(default=25.0 / 6, gt=0)
    """How much of a game is luck: a lead of this much wins about 76 % of the games."""
    tau: float = Field(default=25.0 / 300, ge=0)
    """How much skill drifts between two games: members learn, so no rating is ever certain."""


class ProposeConfig(Section):
    prompts: int = Field(default=2, ge=1)
    """Different prompts for each teacher and task kind in a step."""
    samples: int = Field(default=4, ge=1)
    """Proposals sampled from each prompt. With one alone there is nothing to compare it with, and
    all of a kind are compared instead."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature of teachers."""
    max_tokens: int = Field(default=1024, ge=1)
    """Most tokens of a proposal."""
    max_prompt_chars: int = Field(default=16_000, gt=0)
    """Longest question to a teacher; references are left out until it fits, so that one long
    problem cannot stop a run. What the chat format puts before it, a system text and a few-shot
    example, is not counted."""


class VerifyConfig(Section):
    cpu_s: float = Field(default=1.0, gt=0, le=3600)
    """CPU seconds for a run of a program. All runs of a proposal together may take no more, so that
    what is accepted can be graded with another input beside it."""
    memory_mb: int = Field(default=256, ge=16, le=1_048_576)
    """Memory a program may take beyond the interpreter's own, in MiB."""
    max_program_chars: int = Field(default=4000, gt=0)
    """Longest program."""
    max_input_chars: int = Field(default=1000, gt=0)
    """Longest input of one call."""
    max_output_chars: int = Field(default=1000, gt=0)
    """Longest gold answer. A longer one rejects the proposal: cut, it could not be solved."""
    max_message_chars: int = Field(default=500, gt=0)
    """Longest message of an induction problem."""
    allowed_modules: frozenset[str] = ALLOWED_MODULES
    """Modules a program may import: a cheap filter, not a wall. Others than these defaults may not
    exist in the sandbox."""

    @field_serializer("allowed_modules", when_used="json")
    def _sort(self, modules: frozenset[str]) -> list[str]:
        """A set has another order in every process; what is written down has one."""
        return sorted(modules)


class SolveConfig(Section):
    attempts: int = Field(default=8, ge=2)
    """Attempts sampled for each problem; their share of correct ones is its solve rate."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature. Never zero: greedy attempts are all alike, and the solve rate could
    only be 0 or 1."""
    max_tokens: int = Field(default=2048, ge=1)
    """Most tokens of an answer, reasoning included."""


class RewardConfig(Section):
    teacher: Annotated[OneOf, chosen_from("teacher reward", "paper")] = default("paper")
    """What a proposal earns its teacher, with s the share of correct attempts: `paper` (1 - s; 0
    for zero-pass and all-pass problems), `azr` (-0.5 for these, as Absolute Zero has it),
    `learnability` (s (1 - s), most where either may happen), or `regret` (the best student's solve
    rate less the mean of those that met the problem)."""
    student: Annotated[OneOf, chosen_from("student reward", "verdict")] = default("verdict")
    """What an attempt earns its student."""
    people_weight: float = Field(default=0.0, ge=0)
    """What people's ratings on the live page add to a teacher's reward for a problem: this much at
    the most, and as much less for one that people like least (a Bradley-Terry fit over teachers and
    structures)."""


class UpdateConfig(Section):
    estimator: Annotated[OneOf, chosen_from("estimator", "reinforce_pp")] = default("reinforce_pp")
    """How advantages come from rewards: reinforce_pp (less the prompt's mean, whitened over the
    member's batch), trr_pp (whitened over the tokens of each role and task kind), grpo
    (whitened within each prompt), rloo (less the mean of the prompt's others)."""
    loss: Annotated[OneOf, chosen_from("loss", "reinforce")] = default("reinforce")
    """The policy loss: reinforce, ppo, gspo, cispo, dr_grpo or dapo; cross_entropy for texts that
    nobody sampled."""
    learning_rate: float = Field(default=3e-4, ge=0)
    """Of every member, unless it has its own; 0: it is not trained."""
    teacher_learning_rate: float | None = Field(default=None, ge=0)
    """Of teachers, where it is to differ; 0: frozen teachers."""
    warmup_steps: int = Field(default=0, ge=0)
    """A member's learning rate rises linearly over so many updates of its own. Children warm up as
    well: their optimizer begins anew."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's weight decay."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest norm of one member's gradient."""
    kl: float = Field(default=0.0, ge=0)
    """Weight of the KL divergence from the base."""
    attempts: int = Field(default=0, ge=0)
    """Attempts of a student at each problem that are trained on; the others only count for its
    solve rate. 1 is Absolute Zero's: as many rows of the solver as of the proposer. 0: all."""
    target_pass_rate: float = Field(default=0.0, ge=0, lt=1)
    """Where problems are to stay: while more is solved, teachers' learning rates rise, while less
    is, they fall. 0: rates stay as they are."""
    target_gain: float = Field(default=0.3, gt=0)
    """How fast: the logarithm of the rates changes by this times the difference in every step."""
    target_bounds: Annotated[tuple[PositiveFloat, PositiveFloat], AfterValidator(_check_order)] = (
        0.05,
        2.0,
    )
    """Smallest and largest factor on the rates. Rates several times as high as a good one destroy
    teachers: most of what they write is then invalid."""
    teacher_kl: float | None = Field(default=None, ge=0)
    """Of teachers, where it is to differ."""
    teacher_loss: Annotated[OneOf, chosen_from("loss")] | None = None
    """The policy loss of teachers with its settings, such as clipping, where it is to differ."""
    optimizer_steps: int = Field(default=1, ge=1)
    """Optimizer steps that the samples of one step are split into."""


class WarmupConfig(Section):
    """Before the first step: members learn the form of replies, and nothing else, from the
    archive's seeds and the few-shot examples. For bases that would begin with malformed ones."""

    steps: int = Field(default=0, ge=0)
    """Optimizer steps; 0: none."""
    examples: int = Field(default=8, ge=1)
    """Examples for each member in a step."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Of all members, in the warm-up only."""
    roles: tuple[Literal["teacher", "student"], ...] = ("teacher", "student")
    """Whose replies are learned."""


class ArchiveConfig(Section):
    cap: int = Field(default=2000, ge=1)
    """Most problems that are kept; the oldest leave first."""
    seeds: str = "examples"
    """What it begins with: `examples` (a few small ones), `pawn` (random programs, as Pawn
    knows them), `pawn-games` (programs and logic puzzles), or a JSONL file of problems."""
    seed_count: int = Field(default=64, ge=1, le=1_000_000)
    """How many random programs, for `pawn` and `pawn-games`."""
    seed_tiers: Tiers = (1, 3)
    """Lowest and highest tier of these."""
    policy: Annotated[OneOf, chosen_from("archive policy", "solved_sometimes")] = default(
        "solved_sometimes"
    )
    """Which verified problems it takes: solved_sometimes (some attempts solve it, some do not), or
    all."""
    replay_share: float = Field(default=0.0, ge=0, lt=1)
    """Share of a student's problems that are replayed from the archive: those solved about half of
    the time sooner, and those not attempted for long. They train students, never teachers."""
    replay_staleness: float = Field(default=0.3, ge=0, le=1)
    """How much of that choice is by how long ago a problem was attempted."""
    rarity: float = Field(default=0.0, ge=0)
    """How strongly problems in rare cells of the coverage map are preferred when teachers are shown
    some: each counts as one over the archive's problems in its cell, to this power. 0: all alike;
    1: every cell as likely as every other."""


class FixedConfig(Section):
    source: str = "pawn"
    """Where problems come from when there are no teachers: `pawn` (random programs) or a JSONL file
    of problems."""
    problems: int = Field(default=24, ge=1, le=1_000_000)
    """Problems for each student in a step."""
    tiers: Tiers = (3, 6)
    """Lowest and highest tier, for `pawn`."""


class ChildConfig(Section):
    rating: Literal["inherit", "reset"] = "inherit"
    """`inherit`: the parent's mu and sigma, or the mean of both parents'. `reset`: as at the
    beginning, a trap: with sigma as wide as that, the newborn has the lowest bound and is the next
    to die."""
    reset_mu: float = 25.0
    """Where ratings begin, for `reset`."""
    reset_sigma: float = Field(default=25 / 3, gt=0)
    """How uncertain ratings begin, for `reset`."""
    optimizer: Literal["reset", "parent", "keep"] = "reset"
    """What the child's optimizer starts with. `reset`: nothing. `parent`: the moments of its fitter
    parent, as in population-based training. `keep`: those of the member it replaces."""


class PerturbConfig(Section):
    """Members' own learning rates and temperatures: inherited from one parent and changed, as in
    population-based training (arXiv 1711.09846)."""

    learning_rate_factor: float = Field(default=1.0, ge=1)
    """A child's learning rate is its parent's, multiplied or divided by this; 1 leaves it."""
    learning_rate_low: float = Field(default=1e-7, gt=0)
    """Learning rates do not fall below this."""
    learning_rate_high: float = Field(default=0.1, gt=0)
    """Nor rise above this."""
    temperature_factor: float = Field(default=1.0, ge=1)
    """The same for the sampling temperature."""
    temperature_low: float = Field(default=0.5, gt=0)
    """Temperatures do not fall below this."""
    temperature_high: float = Field(default=1.5, gt=0)
    """Nor rise above this."""

    @model_validator(mode="after")
    def _check_bounds(self) -> "PerturbConfig":
        for name in ("learning_rate", "temperature"):
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if low > high:
                raise ValueError(f"{name}_low={low:g} is above {name}_high={high:g}")
        return self


class HallOfFameConfig(Section):
    size: int = Field(default=0, ge=0)
    """Past members, as they were, that matching may draw opponents from, for each role; 0: none."""
    every: int = Field(default=10, ge=1)
    """Steps between two snapshots."""
    share: float = Field(default=0.25, gt=0, le=1)
    """Chance that one side of a pairing is a past member instead."""

    def due(self, steps_done: int) -> bool:
        """Whether members are kept after so many steps."""
        return self.size > 0 and steps_done % self.every == 0


class ExamConfig(Section):
    """All students of a world answer the same archived problems: every `evolve.every` steps, and in
    the last one."""

    problems: int = Field(default=96, ge=0)
    """How many, from all teachers and of all difficulties; 0: no exam."""
    attempts: int = Field(default=1, ge=1)
    """Answers of each student to each problem. More problems tell more than more attempts; an
    archive with fewer problems gets more attempts."""
    fit: Literal["rasch", "mean"] = "rasch"
    """What a skill is. rasch: logits above the mean student, fitted together with the problems'
    difficulties. mean: the share of correct answers."""


class EvolveConfig(Section):
    every: int = Field(default=10, ge=0)
    """Steps between two replacements; 0: no evolution. Nobody is replaced where nobody is rated:
    with fixed problems, and in self-play."""
    share: float = Field(default=0.25, ge=0, le=1)
    """Share of each role's members that are replaced, rounded down; the last one never is."""
    fitness: Annotated[OneOf, chosen_from("fitness", "exam")] = default("exam")
    """What students are ranked by: exam (their skill in the common exam), shared (the same, with
    the points of a problem divided between those who solve it), or rating (the lower bound, mu - 3
    sigma)."""
    teacher_fitness: Annotated[OneOf, chosen_from("teacher fitness", "reward")] = default("reward")
    """What teachers are ranked by, since members were last replaced: reward (the mean over their
    proposals), information (how well their problems in the exam tell students apart), progress (how
    far their students have come since the last exam), or rating."""
    selection: Annotated[OneOf, chosen_from("selection", "truncation")] = default("truncation")
    """Who dies and who breeds: truncation, tournament, or lexicase (problem by problem of the exam,
    which keeps specialists)."""
    crossover_share: float = Field(default=0.5, ge=0, le=1)
    """Chance that a child is a crossover of two and not a mutation of one."""
    mutations: tuple[Annotated[OneOf, chosen_from("mutation")], ...] = Field(
        default=("svd_jitter", "layer_gaussian", "component_mask", "gaussian"),
        validate_default=True,
    )
    """The mutations in the mix: names, or tables with `type`, `weight` and settings."""
    crossovers: tuple[Annotated[OneOf, chosen_from("crossover")], ...] = Field(
        default=("dare", "layerwise", "svd_subspace", "extrapolate"), validate_default=True
    )
    """The crossovers in the mix."""
    least_distance: float = Field(default=0.0, ge=0)
    """A child nearer than this to another member of its role, as products B A, is mutated further
    until it is not, a few times at most; 0: never. The metric population/least_distance says how
    near members are."""
    merge: Annotated[OneOf, chosen_from("merge", "mean")] = default("mean")
    """How students are merged into one: mean, weighted (by fitness), ties, dare or an import path;
    periodically, and as the soup that the run hands over."""
    merge_every: int = Field(default=0, ge=0)
    """Steps between two times that students restart from their merge; 0: never."""
    migrate_every: int = Field(default=0, ge=0)
    """Steps between two times that the fittest student of each world of a study is copied over the
    least fit of the next; 0: never. In a study file: `migration`."""
    merge_share: float = Field(default=1.0, gt=0, le=1)
    """Share of the students that restart from it, the weakest; 1: all."""
    exam: ExamConfig = Field(default_factory=ExamConfig)
    child: ChildConfig = Field(default_factory=ChildConfig)
    perturb: PerturbConfig = Field(default_factory=PerturbConfig)
    hall_of_fame: HallOfFameConfig = Field(default_factory=HallOfFameConfig)

    @model_validator(mode="after")
    def _check_operators(self) -> "EvolveConfig":
        if self.crossover_share < 1 and not self.mutations:
            raise ValueError("mutations are empty: name some, or set crossover_share = 1")
        if self.crossover_share > 0 and not self.crossovers:
            raise ValueError("crossovers are empty: name some, or set crossover_share = 0")
        return self

    def migration_due(self, steps_done: int) -> bool:
        """Whether worlds exchange members after so many steps."""
        return self.migrate_every > 0 and steps_done % self.migrate_every == 0

    def merge_due(self, steps_done: int) -> bool:
        """Whether students restart from their merge after so many steps."""
        return self.merge_every > 0 and steps_done % self.merge_every == 0

    def due(self, steps_done: int) -> bool:
        """Whether members are replaced after so many steps."""
        return self.every > 0 and steps_done > 0 and steps_done % self.every == 0
