"""Evolution against scripted fitness: it helps where fitness is inherited, does nothing where all
are equal, and does not eat its newborns."""

import statistics
from random import Random
from typing import Any

import pytest
import torch

from redqueen.config.stages import EvolveConfig, RateConfig
from redqueen.core.trueskill import rate_game
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.records import Rating
from redqueen.stages.evolve.breed import breed
from redqueen.stages.evolve.plan import Replacement, plan_replacements
from redqueen.stages.evolve.select import Standing

pytestmark = pytest.mark.slow

PROJECTIONS = {"q": (16, 16), "up": (16, 24), "down": (24, 16)}
RANK = 4


def member(seed: int, near: Adapter | None = None) -> Adapter:
    """Random weights, or some that are a little off from given ones."""
    generator = torch.Generator().manual_seed(seed)
    pairs = {}
    for name, (inside, outside) in PROJECTIONS.items():
        a, b = (
            torch.randn(inside, RANK, generator=generator) / inside**0.5,
            torch.randn(RANK, outside, generator=generator) / RANK**0.5,
        )
        if near is not None:
            a, b = near.projections[name].a + 0.7 * a, near.projections[name].b + 0.7 * b
        pairs[name] = LoraPair(a, b)
    return Adapter(pairs, RANK, RANK)


TARGET = member(0)
COPYING: dict[str, Any] = {"crossover_share": 1, "crossovers": ["copy_parent"]}


def settings(**values: Any) -> EvolveConfig:
    return EvolveConfig.model_validate(values)


def standing(name: str, rating: Rating, role: str = "student") -> Standing:
    return Standing(name, role, rating.mu, rating.sigma, rating.bound)


def child(world: dict[str, Adapter], replacement: Replacement) -> Adapter:
    parents = [world[parent] for parent in replacement.parents]
    return breed(parents, replacement.operator, replacement.seed)


def fitness(adapter: Adapter) -> float:
    """Minus the squared distance of Delta to a hidden one, beside that one's own square. Inherited,
    as far as Delta is."""
    target = TARGET.projections
    off = sum(
        float((a @ b - target[name].a @ target[name].b).square().sum())
        for name, (a, b) in adapter.projections.items()
    )
    return -off / sum(float((a @ b).square().sum()) for a, b in target.values())


def evolved(
    config: EvolveConfig, seed: int, generations: int, *, heritable: bool = True
) -> tuple[float, float]:
    """Median fitness of eight members before and after, with no learning in between: ratings follow
    fitness, or chance."""
    rng = Random(seed)
    world = {f"m{place}": member(100 * seed + place + 1, near=TARGET) for place in range(8)}
    start = statistics.median(map(fitness, world.values()))
    for _ in range(generations):
        shown = {
            name: fitness(adapter) if heritable else rng.random() for name, adapter in world.items()
        }
        standings = [standing(name, Rating(25 + 10 * value, 1.0)) for name, value in shown.items()]
        replacements = plan_replacements(standings, config, rng)
        world |= {replacement.dead: child(world, replacement) for replacement in replacements}
    return start, statistics.median(map(fitness, world.values()))


@pytest.mark.parametrize(
    ("selection", "crossover_share"),
    [("truncation", 0.0), ("truncation", 0.5), ("truncation", 1.0), ("tournament", 0.5)],
)
def test_evolution_raises_fitness_where_fitness_is_inherited(
    selection: str, crossover_share: float
) -> None:
    config = settings(selection=selection, crossover_share=crossover_share)
    for seed in (1, 2):
        start, end = evolved(config, seed, 20)
        _, by_chance = evolved(config, seed, 20, heritable=False)
        assert end > start + 0.1 and end > by_chance + 0.1


def test_variation_finds_what_copying_cannot() -> None:
    """Copies stop at the best member there was; children may be better."""
    best = max(fitness(member(100 + place + 1, near=TARGET)) for place in range(8))
    _, copied = evolved(settings(**COPYING), 1, 20)
    _, varied = evolved(settings(), 1, 20)
    assert copied == pytest.approx(best, abs=1e-5)
    assert varied > copied + 0.02


def test_copies_of_equals_change_nothing() -> None:
    world = {f"m{place}": member(1) for place in range(8)}
    config, rng = settings(**COPYING), Random(0)
    for _ in range(5):
        standings = [standing(name, Rating(25.0, 2.0)) for name in world]
        for replacement in plan_replacements(standings, config, rng):
            world[replacement.dead] = child(world, replacement)
    for adapter in world.values():
        assert all(
            torch.equal(adapter.projections[name][which], factor)
            for name, pair in member(1).projections.items()
            for which, factor in enumerate(pair)
        )


def culls_of_newborns(config: EvolveConfig, seed: int, rounds: int = 60) -> float:
    """The share of deaths that hit the child of the round before, among four students and four
    teachers of equal skill who play true games."""
    rng, rules = Random(seed), RateConfig()
    ratings = {
        role: {f"{role}{place}": Rating(25.0, 25 / 3) for place in range(4)}
        for role in ("teacher", "student")
    }
    young: set[str] = set()
    hits = total = born = 0
    for _ in range(rounds):
        for _ in range(10):
            for one, other in zip(
                ratings["teacher"], rng.sample(sorted(ratings["student"]), 4), strict=True
            ):
                teacher_wins = rng.random() < 0.5
                pair = ratings["teacher"][one], ratings["student"][other]
                winner, loser = rate_game(pair[not teacher_wins], pair[teacher_wins], rules)
                ratings["teacher"][one], ratings["student"][other] = (
                    (winner, loser) if teacher_wins else (loser, winner)
                )
        standings = [
            standing(name, rating, role)
            for role, group in ratings.items()
            for name, rating in group.items()
        ]
        replacements = plan_replacements(standings, config, rng)
        hits, total = (
            hits + sum(replacement.dead in young for replacement in replacements),
            total + len(replacements),
        )
        young = set()
        for replacement in replacements:
            born += 1
            del ratings[replacement.role][replacement.dead]
            ratings[replacement.role][f"child{born}"] = Rating(replacement.mu, replacement.sigma)
            young.add(f"child{born}")
    return hits / total


def test_newborns_are_not_culled_by_default_and_are_when_their_rating_is_reset() -> None:
    reset_ratings = settings(child={"rating": "reset"})
    inherited = sum(culls_of_newborns(settings(), seed) for seed in range(4)) / 4
    reset = sum(culls_of_newborns(reset_ratings, seed) for seed in range(4)) / 4
    assert inherited < 0.35  # one of four would be chance
    assert reset > 0.6
