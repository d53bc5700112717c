"""Who dies, who breeds and what a child starts with: every selection of the table under one
contract, plans, and the settings' messages."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from pydantic import ValidationError

from redqueen.config.stages import EvolveConfig
from redqueen.core.state import StepState
from redqueen.core.world import Evidence, PastMember
from redqueen.records import Birth, Death, Member, Rating
from redqueen.stages.evolve import evolve
from redqueen.stages.evolve.cross.linear import Linear
from redqueen.stages.evolve.fitness import FITNESS
from redqueen.stages.evolve.mutate.gaussian import Gaussian
from redqueen.stages.evolve.mutate.svd_jitter import SvdJitter
from redqueen.stages.evolve.plan import Replacement, plan_replacements
from redqueen.stages.evolve.select import (
    SELECTIONS,
    Selected,
    Standing,
    count_deaths,
    rank,
    spread_over_run,
)
from redqueen.stages.solve import answer
from tests.problems import rated_world, scripted_ports
from tests.scripted import CountingEngine


def standing(name: str, role: str, mu: float, sigma: float, rate: float = 0.0) -> Standing:
    member = Member(name, "student", 0, rating=Rating(mu, sigma))
    fitness = FITNESS["rating"](member, Evidence(), FITNESS.choose("rating"))
    assert fitness is not None
    return Standing(name, role, mu, sigma, fitness, learning_rate=rate, temperature=1.4)


def members(count: int, role: str = "student", sigma: float = 1.0) -> list[Standing]:
    """The later, the fitter."""
    return [standing(f"{role}{place}", role, 20.0 + place, sigma) for place in range(count)]


def choose(name: str, standings: list[Standing], count: int, seed: int = 0) -> Selected:
    return SELECTIONS[name](standings, count, SETTINGS[name], Random(seed))


def plan(standings: list[Standing], seed: int = 0, **settings: object) -> list[Replacement]:
    return plan_replacements(standings, EvolveConfig.model_validate(settings), Random(seed))


SETTINGS = {name: SELECTIONS.choose(name) for name in ("truncation", "tournament", "lexicase")}


def test_every_selection_is_tested() -> None:
    assert set(SETTINGS) == set(SELECTIONS)


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize(("size", "count"), [(1, 0), (2, 1), (4, 1), (8, 2), (8, 7), (5, 0)])
def test_so_many_die_and_survivors_are_their_childrens_parents(
    name: str, size: int, count: int
) -> None:
    standings = members(size)
    for seed in range(20):
        chosen = choose(name, standings, count, seed)
        assert len(set(chosen.dead)) == len(chosen.dead) == len(chosen.parents) == count
        survivors = set(standings) - set(chosen.dead)
        for parents in chosen.parents:
            assert len(set(parents)) == len(parents) == min(2, len(survivors))
            assert set(parents) <= survivors
    assert standings == members(size)


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_same_stream_selects_the_same(name: str) -> None:
    assert choose(name, members(8), 2, 5) == choose(name, members(8), 2, 5)


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_weak_die_more_often_and_the_fit_breed_more_often(name: str) -> None:
    dead: Counter[str] = Counter()
    parents: Counter[str] = Counter()
    for seed in range(300):
        chosen = choose(name, members(8), 2, seed)
        dead.update(item.member for item in chosen.dead)
        parents.update(item.member for pair in chosen.parents for item in pair)
    assert dead["student0"] > dead["student4"] and dead["student0"] > 200 and dead["student7"] == 0
    assert (
        parents["student7"] > parents["student2"]
        and parents["student0"] <= parents["student2"] <= parents["student6"]
    )


@pytest.mark.parametrize("name", SELECTIONS)
def test_among_equals_it_is_chance_that_decides(name: str) -> None:
    equals = [standing(f"student{place}", "student", 25.0, 2.0) for place in range(4)]
    dead = Counter(choose(name, equals, 1, seed).dead[0].member for seed in range(400))
    assert min(dead.values()) > 60 and len(dead) == 4


def test_fitness_by_rating_is_its_lower_bound() -> None:
    sure = standing("sure", "student", 25.0, 1.0)
    unsure = standing("unsure", "student", 30.0, 5.0)
    assert (sure.fitness, unsure.fitness) == (22.0, 15.0)
    assert [item.member for item in rank([unsure, sure], Random(0))] == ["sure", "unsure"]


def test_truncation_takes_the_bottom_and_breeds_from_the_top() -> None:
    for seed in range(50):
        chosen = choose("truncation", members(8), 2, seed)
        assert {item.member for item in chosen.dead} == {"student0", "student1"}
        assert {item.member for pair in chosen.parents for item in pair} <= {
            f"student{place}" for place in range(4, 8)
        }


@pytest.mark.parametrize(
    ("size", "share", "count"),
    [
        (0, 0.25, 0),
        (1, 0.25, 0),
        (1, 1.0, 0),
        (3, 0.25, 0),
        (4, 0.25, 1),
        (8, 0.25, 2),
        (10, 0.3, 3),
        (4, 1.0, 3),
    ],
)
def test_the_share_is_rounded_down_and_one_always_stays(
    size: int, share: float, count: int
) -> None:
    assert count_deaths(size, share) == count


# plans


def test_a_plan_replaces_within_each_role() -> None:
    everybody = [*members(4, "teacher"), *members(8, "student")]
    replacements = plan(everybody)
    assert [replacement.role for replacement in replacements] == ["teacher", "student", "student"]
    for replacement in replacements:
        assert replacement.dead.startswith(replacement.role)
        assert all(parent.startswith(replacement.role) for parent in replacement.parents)
    assert len({replacement.seed for replacement in replacements}) == 3
    assert plan(everybody) == replacements


def test_the_mix_is_sampled_by_its_weights() -> None:
    config = EvolveConfig.model_validate(
        {
            "crossover_share": 0.25,
            "mutations": [{"type": "gaussian", "weight": 3}, "svd_jitter"],
            "crossovers": ["linear"],
        }
    )
    rng = Random(0)
    operators = Counter(
        plan_replacements(members(4), config, rng)[0].operator.settings.type for _ in range(2000)
    )
    assert 0.2 < operators["linear"] / 2000 < 0.3
    assert 2.4 < operators["gaussian"] / operators["svd_jitter"] < 3.8


def test_a_mutation_has_one_parent_a_crossover_two_with_the_fitter_first_and_a_copy_one() -> None:
    ratings = {item.member: item.mu for item in members(8)}
    for seed in range(30):
        (mutated, *_) = plan(members(8), seed, crossover_share=0)
        (parent,) = mutated.parents
        assert (mutated.mu, mutated.sigma) == (ratings[parent], 1.0)
        (crossed, *_) = plan(members(8), seed, crossover_share=1)
        first, second = crossed.parents
        assert ratings[first] > ratings[second]
        assert crossed.mu == (ratings[first] + ratings[second]) / 2
        (copied, *_) = plan(members(8), seed, crossover_share=1, crossovers=["copy_parent"])
        assert len(copied.parents) == 1 and copied.mu == ratings[copied.parents[0]]


def test_every_top_member_is_a_mutations_parent_now_and_then() -> None:
    parents = Counter(
        plan(members(4), seed, crossover_share=0)[0].parents[0] for seed in range(100)
    )
    assert min(parents["student2"], parents["student3"]) > 30


def test_a_rating_may_be_reset() -> None:
    (child, *_) = plan(members(4), child={"rating": "reset"})
    assert (child.mu, child.sigma) == (25.0, 25 / 3)


def test_where_one_survives_a_mutation_takes_the_place_of_a_crossover() -> None:
    (mutated,) = plan(members(2), share=0.5, crossover_share=1)
    assert not mutated.operator.crosses and len(mutated.parents) == 1
    (alone,) = plan(members(2), share=0.5, crossover_share=1, mutations=[])
    assert alone.operator.crosses and alone.parents == ("student1",)


def test_learning_rates_and_temperatures_are_inherited_and_changed_only_if_asked() -> None:
    standings = [
        standing(f"student{place}", "student", float(place), 1.0, 1e-4) for place in range(4)
    ]
    (plain,) = plan(standings)
    assert (plain.learning_rate, plain.temperature) == (1e-4, 1.4)
    perturb = {"learning_rate_factor": 1.25, "temperature_factor": 1.2}
    children = [plan(standings, seed, perturb=perturb)[0] for seed in range(40)]
    assert {round(child.learning_rate * 1e6) for child in children} == {80, 125}
    assert {round(child.temperature, 3) for child in children} == {1.167, 1.5}


# the stage


def evolved(*settings: str, step: int = 40, diverged: bool = False) -> StepState:
    """One teacher and four students, the later the fitter, after the stage. S0 is to die."""
    world = rated_world([25.0], [20.0, 21.0, 22.0, 23.0], "evolve.crossover_share=0", *settings)
    state = StepState(world, step, diverged=["S3"] if diverged else [])
    ports = scripted_ports()
    ports.engine = CountingEngine(world.config.slots)
    ports.engine.weights[:] = [0.0, 1.0, 2.0, 3.0, 4.0]
    evolve([state], ports, answer)
    return state


def test_a_replacement_leaves_a_birth_and_a_death() -> None:
    state = evolved("evolve.mutations=[{type='gaussian', eps=0.2}]")
    (birth,), (death,) = state.births, state.deaths
    first = Member("S0", "student", 1, rating=Rating(20.0, 1.0))
    assert death == Death(first, "truncation: rating fitness 17.000")
    (parent,) = birth.parents
    rating = state.world.by_id(parent).rating
    child = replace(first, id="S0.40", born=40, rating=rating)
    settings = {"eps": 0.2, "seed": birth.settings["seed"]}
    assert birth == Birth(child, (parent,), "gaussian", settings)
    assert [member.id for member in state.world.members] == ["T0", "S0.40", "S1", "S2", "S3"]
    assert state.metrics["evolve/replaced"] == 1


def test_a_world_that_diverged_or_is_not_due_keeps_its_members() -> None:
    for state in (evolved(diverged=True), evolved(step=41), evolved("evolve.every=0")):
        assert not state.births and not state.deaths
        assert {member.born for member in state.world.members} == {0}


def test_a_child_that_is_too_near_to_another_is_mutated_further_a_few_times_at_most() -> None:
    scaled = "evolve.mutations=[{type='tests.outside.things:mutation', settings={shrink=2}}]"
    # a child has twice its parent's weight, 6 or 8; the others have 2, 3 and 4
    for least, further in (("1.5", None), ("20", 2), ("1e9", 5)):
        (birth,) = evolved(scaled, f"evolve.least_distance={least}").births
        assert birth.settings.get("further") == further


def test_it_is_due_every_so_many_steps() -> None:
    assert [step for step in range(31) if EvolveConfig().due(step)] == [10, 20, 30]
    assert not any(EvolveConfig(every=0).due(step) for step in range(31))


# settings


def test_the_default_mix_is_the_papers() -> None:
    config = EvolveConfig()
    assert [settings.type for settings in config.mutations] == [
        "svd_jitter",
        "layer_gaussian",
        "component_mask",
        "gaussian",
    ]
    assert [settings.type for settings in config.crossovers] == [
        "dare",
        "layerwise",
        "svd_subspace",
        "extrapolate",
    ]
    assert (
        config.every,
        config.share,
        config.child.rating,
        config.child.optimizer,
        config.hall_of_fame.size,
    ) == (10, 0.25, "inherit", "reset", 0)


def test_operators_are_named_with_their_settings() -> None:
    config = EvolveConfig.model_validate(
        {
            "mutations": [
                "svd_jitter",
                {"type": "gaussian", "eps": 0.3, "weight": 2},
                {"type": "tests.outside.things:mutation", "settings": {"shrink": 2}},
            ],
            "crossovers": [{"type": "linear"}],
        }
    )
    assert config.mutations[:2] == (
        SvdJitter(),
        Gaussian(eps=0.3, weight=2),
    ) and config.crossovers == (Linear(),)
    assert config.mutations[2].model_dump() == {
        "type": "tests.outside.things:mutation",
        "weight": 1.0,
        "settings": {"shrink": 2},
    }
    assert EvolveConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mutations": ["svd_jiter"]}, "Did you mean 'svd_jitter'"),
        ({"crossovers": [{"type": "fisher"}]}, "unknown crossover 'fisher'"),
        (
            {"mutations": [{"type": "gaussian", "epsilon": 1}]},
            "mutation 'gaussian': unknown setting 'epsilon'. Did you mean 'eps'",
        ),
        ({"mutations": [{"type": "gaussian", "eps": -1}]}, "greater than or equal to 0"),
        ({"mutations": [{"type": "gaussian", "weight": 0}]}, "greater than 0"),
        ({"crossovers": [{"type": "della", "drop": 0.99}]}, "drop must lie between"),
        ({"crossovers": [{"type": "extrapolate", "eta_low": 2}]}, "eta_low"),
        ({"mutations": []}, "set crossover_share = 1"),
        ({"crossovers": []}, "set crossover_share = 0"),
        ({"selection": {"type": "roulette"}}, "unknown selection 'roulette'"),
        ({"selection": {"type": "tournament", "size": 1}}, "greater than or equal to 2"),
        ({"fitness": "raiting"}, "unknown fitness 'raiting'. Did you mean 'rating'"),
        ({"teacher_fitness": "rewrad"}, "unknown teacher fitness 'rewrad'. Did you mean 'reward'"),
        ({"mutations": [5]}, "mutations"),
    ],
)
def test_a_wrong_setting_is_answered_with_what_is_possible(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        EvolveConfig.model_validate(values)


# the hall of fame


def test_a_hall_of_fame_holds_the_fittest_of_each_era() -> None:
    past = [
        PastMember(Member(f"m{place}", "student", place), step, mu)
        for step in range(0, 41, 10)
        for place in range(4)
        for mu in [step + 5.0 * (place == step // 10 % 4)]
    ]
    hall = spread_over_run(past, 4)
    assert [kept.step for kept in hall] == [0, 10, 20, 40]
    assert [kept.member.id for kept in hall] == ["m0", "m1", "m2", "m0"]
    assert spread_over_run(list(reversed(past)), 4) == hall
    assert spread_over_run(past, 0) == spread_over_run([], 3) == []
    assert len(spread_over_run(past[:4], 3)) == 1
