"""One round of evolution: a plan, made from ratings alone, and the children, made from weights
alone.

`plan` is pure and needs no torch; `apply` makes one child. Rollout it into a slot and the records
into the ledger is the loop's work.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from redqueen.config.stages import EvolveConfig
from redqueen.stages.evolve.cross import CROSSOVERS, OutsideCrossover
from redqueen.stages.evolve.lineage import Birth, Death
from redqueen.stages.evolve.mutate import MUTATIONS
from redqueen.stages.evolve.operator import Operator, OperatorSettings, Outside, load
from redqueen.stages.evolve.select import SELECTIONS, Standing, deaths

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import Draws


@dataclass(frozen=True, slots=True)
class Replacement:
    """One member is to be replaced by one child."""

    dead: str
    role: str
    parents: tuple[str, ...]
    """The fitter one first."""
    settings: OperatorSettings
    """Which operator, and how."""
    seed: int
    """Of the operator's draws."""
    mu: float
    sigma: float
    """The child's rating."""
    learning_rate: float
    temperature: float
    """The child's own, for members that have their own."""
    reason: str
    """Why the member goes."""

    def birth(self, child: str, step: int) -> Birth:
        return Birth(
            child,
            self.parents,
            self.settings.type,
            {**self.settings.model_dump(exclude={"type", "weight"}), "seed": self.seed},
            step,
        )

    def death(self, step: int) -> Death:
        return Death(self.dead, step, self.reason)


def plan(members: Sequence[Standing], config: EvolveConfig, rng: Random) -> list[Replacement]:
    """Who dies, who breeds and how, role by role. Roles do not mix."""
    found: list[Replacement] = []
    for role in dict.fromkeys(standing.role for standing in members):
        found += _plan_role(
            [standing for standing in members if standing.role == role], config, rng
        )
    return found


def _plan_role(
    standings: Sequence[Standing], config: EvolveConfig, rng: Random
) -> list[Replacement]:
    count = deaths(len(standings), config.share)
    chosen = SELECTIONS[config.selection.type](standings, count, config.selection, rng)
    return [
        _replacement(dead, parents, config, rng)
        for dead, parents in zip(chosen.dead, chosen.parents, strict=True)
    ]


def _replacement(
    dead: Standing, candidates: Sequence[Standing], config: EvolveConfig, rng: Random
) -> Replacement:
    settings = _operator(len(candidates), config, rng)
    first = candidates[0]
    parents = sorted(candidates[: operator(settings).parents], key=lambda parent: -parent.fitness)
    mu, sigma = _rating(parents, config)
    perturb = config.perturb
    rate = _perturbed(first.learning_rate, perturb.learning_rate_factor, 0.0, math.inf, rng)
    temperature = _perturbed(
        first.temperature,
        perturb.temperature_factor,
        perturb.temperature_low,
        perturb.temperature_high,
        rng,
    )
    reason = f"{config.selection.type}: mu - 3 sigma = {dead.fitness:.3f}"
    names = tuple(parent.member for parent in parents)
    return Replacement(
        dead.member,
        dead.role,
        names,
        settings,
        rng.getrandbits(63),
        mu,
        sigma,
        rate,
        temperature,
        reason,
    )


def _operator(candidates: int, config: EvolveConfig, rng: Random) -> OperatorSettings:
    """Drawn from the mix. Where one member survives there are no two to cross: a mutation, if the
    mix has one."""
    cross = rng.random() < config.crossover_share and (candidates > 1 or not config.mutations)
    mix: Sequence[OperatorSettings] = config.crossovers if cross else config.mutations
    return rng.choices(mix, [settings.weight for settings in mix])[0]


def _rating(parents: Sequence[Standing], config: EvolveConfig) -> tuple[float, float]:
    if config.child.rating == "reset":
        return config.child.reset_mu, config.child.reset_sigma
    return sum(parent.mu for parent in parents) / len(parents), sum(
        parent.sigma for parent in parents
    ) / len(parents)


def _perturbed(value: float, factor: float, low: float, high: float, rng: Random) -> float:
    if factor == 1:
        return value
    return min(high, max(low, value * (factor if rng.random() < 0.5 else 1 / factor)))


def operator(settings: OperatorSettings) -> Operator:
    """The row of the tables, or the function from outside, that settings ask for."""
    return load(settings, CROSSOVERS, 2) if is_crossover(settings) else load(settings, MUTATIONS, 1)


def is_crossover(settings: OperatorSettings) -> bool:
    return settings.type in CROSSOVERS or isinstance(settings, OutsideCrossover)


def apply(
    adapters: Mapping[str, "Adapter"], replacement: Replacement, device: str | None = None
) -> "Adapter":
    """The child's weights, from its parents'."""
    return breed(
        [adapters[parent] for parent in replacement.parents],
        replacement.settings,
        replacement.seed,
        device,
    )


def breed(
    parents: Sequence["Adapter"], settings: OperatorSettings, seed: int, device: str | None = None
) -> "Adapter":
    """A child of one or two parents. It is computed on the given device, by default where the
    parents are, and is left where they are."""
    import torch

    from redqueen.models.adapter import LoraPair
    from redqueen.stages.evolve.lowrank import stacks
    from redqueen.stages.evolve.operator_rng import Draws

    names = list(parents[0].projections)
    made, draws = operator(settings), Draws(seed, names)
    home = next(iter(parents[0].projections.values())).a.device
    child: dict[str, LoraPair] = {}
    options = settings.settings if isinstance(settings, Outside) else settings
    with torch.no_grad():
        factors = [parent.projections for parent in parents]
        for group in stacks(factors, torch.device(device) if device else home):
            given = (group[0], group[-1]) if is_crossover(settings) else group[:1]
            born = _alive(made.function(*given, options, draws), draws)
            for place, name in enumerate(born.names):
                a, b = (both[place].to(home, copy=True) for both in (born.a, born.b))
                child[name] = LoraPair(a, b)
    return replace(parents[0], projections={name: child[name] for name in names})


def _alive(child: "Stack", draws: "Draws") -> "Stack":
    """A component with neither A nor B would never learn, since each one's gradient is a product
    with the other: its A is drawn as a newborn's."""
    from redqueen.stages.evolve.lowrank import NEWBORN_SIZE, Stack

    lengths = child.a.norm(dim=1)
    others = child.b.abs().amax(2)
    lost = (lengths <= 1e-6 * lengths.amax(1, keepdim=True)) & (
        others <= 1e-6 * others.amax(1, keepdim=True)
    )
    if not bool(lost.any()):
        return child
    fresh = draws.normal(child.names, child.a)
    fresh = fresh * NEWBORN_SIZE / fresh.norm(dim=1, keepdim=True)
    return Stack(
        child.names,
        fresh.where(lost[:, None, :], child.a),
        child.b.masked_fill(lost[:, :, None], 0),
    )
