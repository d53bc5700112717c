"""Who is replaced, by whose child, and what the child starts with: planned from fitness alone,
without weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from redqueen.config.registry import Choice
from redqueen.config.stages import EvolveConfig
from redqueen.stages.evolve.cross import CROSSOVERS
from redqueen.stages.evolve.mutate import MUTATIONS
from redqueen.stages.evolve.operator import Operator
from redqueen.stages.evolve.select import SELECTIONS, Standing, count_deaths


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """An operator of the mix."""

    settings: Choice
    crosses: bool
    """Whether it takes two parents."""

    @property
    def function(self) -> Operator:
        return (CROSSOVERS if self.crosses else MUTATIONS)[self.settings.type]

    @property
    def parents(self) -> int:
        """How many parents count for the child's rating and lineage."""
        return int(getattr(self.function, "parents", 2 if self.crosses else 1))


@dataclass(frozen=True, slots=True)
class Replacement:
    """One member is to be replaced by one child."""

    dead: str
    role: str
    parents: tuple[str, ...]
    """The fitter one first."""
    operator: PlannedOperator
    seed: int
    """Of the operator's random numbers."""
    mu: float
    sigma: float
    """The child's rating."""
    learning_rate: float
    temperature: float
    """The child's own, for members that have their own."""
    reason: str
    """Why the member goes."""

    def settings(self) -> dict[str, Any]:
        """The operator's settings and seed, for the lineage."""
        options = self.operator.settings.model_dump(exclude={"type", "weight"})
        return {**options, "seed": self.seed}


def plan_replacements(
    members: Sequence[Standing], config: EvolveConfig, rng: Random
) -> list[Replacement]:
    """Role by role: roles do not mix."""
    replacements: list[Replacement] = []
    for role in dict.fromkeys(standing.role for standing in members):
        standings = [standing for standing in members if standing.role == role]
        count = count_deaths(len(standings), config.share)
        selection = SELECTIONS[config.selection.type]
        selected = selection(standings, count, config.selection.options, rng)
        replacements += [
            _plan_child(dead, parents, config, rng)
            for dead, parents in zip(selected.dead, selected.parents, strict=True)
        ]
    return replacements


def _plan_child(
    dead: Standing, candidates: Sequence[Standing], config: EvolveConfig, rng: Random
) -> Replacement:
    operator = _choose_operator(len(candidates), config, rng)
    first = candidates[0]
    parents = sorted(candidates[: operator.parents], key=lambda parent: -parent.fitness)
    mu, sigma = _child_rating(parents, config)
    perturb = config.perturb
    rate = _perturb(
        first.learning_rate,
        perturb.learning_rate_factor,
        perturb.learning_rate_low,
        perturb.learning_rate_high,
        rng,
    )
    temperature = _perturb(
        first.temperature,
        perturb.temperature_factor,
        perturb.temperature_low,
        perturb.temperature_high,
        rng,
    )
    return Replacement(
        dead.member,
        dead.role,
        tuple(parent.member for parent in parents),
        operator,
        rng.getrandbits(63),
        mu,
        sigma,
        rate,
        temperature,
        f"{config.selection.type}: {dead.measure} fitness {dead.fitness:.3f}",
    )


def _choose_operator(candidates: int, config: EvolveConfig, rng: Random) -> PlannedOperator:
    """From the mix. Where one member survives there are no two to cross: a mutation, if the mix has
    one."""
    crosses = rng.random() < config.crossover_share and (candidates > 1 or not config.mutations)
    return choose_from_mix(config.crossovers if crosses else config.mutations, crosses, rng)


def choose_from_mix(mix: Sequence[Any], crosses: bool, rng: Random) -> PlannedOperator:
    """One of the operators, by weight."""
    weights = [getattr(settings, "weight", 1.0) for settings in mix]  # one from outside may lack it
    settings = rng.choices(mix, weights)[0]
    return PlannedOperator(settings, crosses)


def _child_rating(parents: Sequence[Standing], config: EvolveConfig) -> tuple[float, float]:
    if config.child.rating == "reset":
        return config.child.reset_mu, config.child.reset_sigma
    count = len(parents)
    return sum(parent.mu for parent in parents) / count, sum(
        parent.sigma for parent in parents
    ) / count


def _perturb(value: float, factor: float, low: float, high: float, rng: Random) -> float:
    if factor == 1 or value == 0:  # who is not trained has nothing to change
        return value
    return min(high, max(low, value * (factor if rng.random() < 0.5 else 1 / factor)))
