"""Settings of evolution: when, who dies, which operators with which weights, and what a child
starts with."""

from typing import Literal

from pydantic import Field, model_validator

from redqueen.config.section import Section
from redqueen.stages.evolve.cross import CrossoverSettings
from redqueen.stages.evolve.cross.dare import Dare
from redqueen.stages.evolve.cross.extrapolate import Extrapolate
from redqueen.stages.evolve.cross.layerwise import Layerwise
from redqueen.stages.evolve.cross.svd_subspace import SvdSubspace
from redqueen.stages.evolve.mutate import MutationSettings
from redqueen.stages.evolve.mutate.component_mask import ComponentMask
from redqueen.stages.evolve.mutate.gaussian import Gaussian
from redqueen.stages.evolve.mutate.layer_gaussian import LayerGaussian
from redqueen.stages.evolve.mutate.svd_jitter import SvdJitter
from redqueen.stages.evolve.select import SelectionSettings, Truncation


class ChildConfig(Section):
    rating: Literal["inherit", "reset"] = "inherit"
    """`inherit`: the parent's mu and sigma, or the mean of both parents'. `reset`: as at the
    beginning, a trap: with sigma as wide as that, the newborn has the lowest bound and is the next
    to die."""
    reset_mu: float = 25.0
    """Where ratings begin, for `reset`."""
    reset_sigma: float = Field(default=25 / 3, gt=0)
    """How uncertain ratings begin, for `reset`."""
    reset_optimizer: bool = True
    """Start with clean optimizer state; otherwise the child goes on with that of the member it
    replaces."""


class PerturbConfig(Section):
    """Members' own learning rates and temperatures: inherited from one parent and changed, as in
    population-based training (arXiv 1711.09846)."""

    learning_rate_factor: float = Field(default=1.0, ge=1)
    """A child's learning rate is its parent's, multiplied or divided by this; 1 leaves it."""
    temperature_factor: float = Field(default=1.0, ge=1)
    """The same for the sampling temperature."""
    temperature_low: float = Field(default=0.5, gt=0)
    """Temperatures do not fall below this."""
    temperature_high: float = Field(default=1.5, gt=0)
    """Nor rise above this."""


class HallOfFameConfig(Section):
    size: int = Field(default=0, ge=0)
    """Past members, as they were, that matching may draw opponents from, for each role; 0: none."""
    every: int = Field(default=10, ge=1)
    """Steps between two snapshots."""
    share: float = Field(default=0.25, gt=0, le=1)
    """Chance that one side of a pairing is a past member instead."""


class EvolveConfig(Section):
    every: int = Field(default=10, ge=0)
    """Steps between two replacements; 0: no evolution. Nobody is replaced where nobody is rated:
    with fixed problems, and in self-play."""
    share: float = Field(default=0.25, ge=0, le=1)
    """Share of each role's members that are replaced, rounded down; the last one never is."""
    selection: SelectionSettings = Truncation()
    """Who dies and who breeds."""
    crossover_share: float = Field(default=0.5, ge=0, le=1)
    """Chance that a child is a crossover of two and not a mutation of one."""
    mutations: tuple[MutationSettings, ...] = (
        SvdJitter(),
        LayerGaussian(),
        ComponentMask(),
        Gaussian(),
    )
    """The mutations in the mix: names, or tables with `type`, `weight` and the operator's settings."""
    crossovers: tuple[CrossoverSettings, ...] = (Dare(), Layerwise(), SvdSubspace(), Extrapolate())
    """The crossovers in the mix."""
    least_distance: float = Field(default=0.0, ge=0)
    """A child nearer than this to another member of its role, as products B A, is mutated further
    until it is not, a few times at most; 0: never. The metric population/least_distance says how
    near members are."""
    child: ChildConfig = ChildConfig()
    perturb: PerturbConfig = PerturbConfig()
    hall_of_fame: HallOfFameConfig = HallOfFameConfig()

    @model_validator(mode="after")
    def _operators(self) -> "EvolveConfig":
        if self.crossover_share < 1 and not self.mutations:
            raise ValueError("mutations are empty: name some, or set crossover_share = 1")
        if self.crossover_share > 0 and not self.crossovers:
            raise ValueError("crossovers are empty: name some, or set crossover_share = 0")
        return self

    def due(self, steps_done: int) -> bool:
        """Whether members are replaced after so many steps."""
        return self.every > 0 and steps_done > 0 and steps_done % self.every == 0
