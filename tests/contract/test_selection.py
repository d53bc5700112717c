"""Who dies, who breeds and what a child starts with: every selection of the table under one
contract, plans, and the settings' messages."""

from collections import Counter
from random import Random

import pytest
from pydantic import ValidationError
from redqueen.stages.evolve.lineage import Birth, Death

from redqueen.config.stages import ChildConfig, EvolveConfig, PerturbConfig
from redqueen.stages.evolve.cross.copy_parent import CopyParent
from redqueen.stages.evolve.cross.linear import Linear
from redqueen.stages.evolve.mutate.gaussian import Gaussian
from redqueen.stages.evolve.mutate.svd_jitter import SvdJitter
from redqueen.stages.evolve.plan import plan
from redqueen.stages.evolve.select import (
    SELECTIONS,
    Selected,
    Snapshot,
    Standing,
    Tournament,
    Truncation,
    deaths,
    hall_of_fame,
    ranked,
)

SETTINGS = {"truncation": Truncation(), "tournament": Tournament()}


def members(count: int, role: str = "student", sigma: float = 1.0) -> list[Standing]:
    """The later, the fitter."""
    return [Standing(f"{role}{place}", role, 20.0 + place, sigma) for place in range(count)]


def choose(name: str, standings: list[Standing], count: int, seed: int = 0) -> Selected:
    return SELECTIONS[name](standings, count, SETTINGS[name], Random(seed))


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
        dead.update(standing.member for standing in chosen.dead)
        parents.update(standing.member for pair in chosen.parents for standing in pair)
    assert dead["student0"] > dead["student4"] and dead["student0"] > 200 and dead["student7"] == 0
    assert (
        parents["student7"] > parents["student2"]
        and parents["student0"] <= parents["student2"] <= parents["student6"]
    )


@pytest.mark.parametrize("name", SELECTIONS)
def test_among_equals_it_is_chance_that_decides(name: str) -> None:
    equals = [Standing(f"student{place}", "student", 25.0, 2.0) for place in range(4)]
    dead = Counter(choose(name, equals, 1, seed).dead[0].member for seed in range(400))
    assert min(dead.values()) > 60 and len(dead) == 4


def test_fitness_is_the_lower_bound_of_the_rating() -> None:
    sure, unsure = Standing("sure", "student", 25.0, 1.0), Standing("unsure", "student", 30.0, 5.0)
    assert [standing.member for standing in ranked([unsure, sure], Random(0))] == ["sure", "unsure"]


def test_truncation_takes_the_bottom_and_breeds_from_the_top() -> None:
    for seed in range(50):
        chosen = choose("truncation", members(8), 2, seed)
        assert {standing.member for standing in chosen.dead} == {"student0", "student1"}
        assert {standing.member for pair in chosen.parents for standing in pair} <= {
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
    assert deaths(size, share) == count


# plans


def test_a_plan_replaces_within_each_role() -> None:
    found = plan([*members(4, "teacher"), *members(8, "student")], EvolveConfig(), Random(0))
    assert [replacement.role for replacement in found] == ["teacher", "student", "student"]
    for replacement in found:
        assert replacement.dead.startswith(replacement.role) and all(
            parent.startswith(replacement.role) for parent in replacement.parents
        )
    assert len({replacement.seed for replacement in found}) == 3
    assert (
        plan([*members(4, "teacher"), *members(8, "student")], EvolveConfig(), Random(0)) == found
    )


def test_the_mix_is_drawn_by_its_weights() -> None:
    config = EvolveConfig.model_validate(
        {
            "crossover_share": 0.25,
            "mutations": [{"type": "gaussian", "weight": 3}, "svd_jitter"],
            "crossovers": ["linear"],
        }
    )
    rng = Random(0)
    drawn = Counter(plan(members(4), config, rng)[0].settings.type for _ in range(2000))
    assert 0.2 < drawn["linear"] / 2000 < 0.3
    assert 2.4 < drawn["gaussian"] / drawn["svd_jitter"] < 3.8


def test_a_mutation_has_one_parent_a_crossover_two_with_the_fitter_first_and_a_copy_one() -> None:
    ratings = {standing.member: standing.mu for standing in members(8)}
    for seed in range(30):
        (mutated, *_) = plan(members(8), EvolveConfig(crossover_share=0), Random(seed))
        assert len(mutated.parents) == 1 and (mutated.mu, mutated.sigma) == (
            ratings[mutated.parents[0]],
            1.0,
        )
        (crossed, *_) = plan(members(8), EvolveConfig(crossover_share=1), Random(seed))
        first, second = crossed.parents
        assert (
            ratings[first] > ratings[second]
            and crossed.mu == (ratings[first] + ratings[second]) / 2
        )
        (copied, *_) = plan(
            members(8), EvolveConfig(crossover_share=1, crossovers=(CopyParent(),)), Random(seed)
        )
        assert len(copied.parents) == 1 and copied.mu == ratings[copied.parents[0]]


def test_every_top_member_is_a_mutations_parent_now_and_then() -> None:
    found = Counter(
        plan(members(4), EvolveConfig(crossover_share=0), Random(seed))[0].parents[0]
        for seed in range(100)
    )
    assert min(found["student2"], found["student3"]) > 30


def test_a_rating_may_be_reset() -> None:
    (child, *_) = plan(members(4), EvolveConfig(child=ChildConfig(rating="reset")), Random(0))
    assert (child.mu, child.sigma) == (25.0, 25 / 3)


def test_where_one_survives_a_mutation_takes_the_place_of_a_crossover() -> None:
    config = EvolveConfig(share=0.5, crossover_share=1)
    assert [
        replacement.settings.type in ("svd_jitter", "layer_gaussian", "component_mask", "gaussian")
        for replacement in plan(members(2), config, Random(0))
    ] == [True]
    (alone,) = plan(members(2), EvolveConfig(share=0.5, crossover_share=1, mutations=()), Random(0))
    assert alone.parents == ("student1",)


def test_learning_rates_and_temperatures_are_inherited_and_changed_only_if_asked() -> None:
    standings = [
        Standing(f"student{place}", "student", float(place), 1.0, 1e-4, 1.4) for place in range(4)
    ]
    (plain,) = plan(standings, EvolveConfig(), Random(0))
    assert (plain.learning_rate, plain.temperature) == (1e-4, 1.4)
    config = EvolveConfig(perturb=PerturbConfig(learning_rate_factor=1.25, temperature_factor=1.2))
    found = [plan(standings, config, Random(seed))[0] for seed in range(40)]
    assert {round(child.learning_rate * 1e6) for child in found} == {80, 125}
    assert {round(child.temperature, 3) for child in found} == {1.167, 1.5}


def test_a_replacement_leaves_a_birth_and_a_death() -> None:
    (child,) = plan(
        members(4), EvolveConfig(crossover_share=0, mutations=(Gaussian(eps=0.2),)), Random(0)
    )
    assert child.birth("student9", 40) == Birth(
        "student9", child.parents, "gaussian", {"eps": 0.2, "seed": child.seed}, 40
    )
    assert child.death(40) == Death("student0", 40, "truncation: mu - 3 sigma = 17.000")


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
        config.child.reset_optimizer,
        config.hall_of_fame.size,
    ) == (10, 0.25, "inherit", True, 0)


def test_operators_are_named_with_their_settings() -> None:
    config = EvolveConfig.model_validate(
        {
            "mutations": [
                "svd_jitter",
                {"type": "gaussian", "eps": 0.3, "weight": 2},
                {"type": "my_package.ops:mine", "settings": {"x": 1}},
            ],
            "crossovers": [{"type": "linear"}],
        }
    )
    assert config.mutations[:2] == (
        SvdJitter(),
        Gaussian(eps=0.3, weight=2),
    ) and config.crossovers == (Linear(),)
    assert config.mutations[2].model_dump() == {
        "type": "my_package.ops:mine",
        "weight": 1.0,
        "settings": {"x": 1},
    }
    assert EvolveConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mutations": ["svd_jiter"]}, "Did you mean 'svd_jitter'"),
        ({"crossovers": [{"type": "fisher"}]}, "unknown crossover 'fisher'"),
        ({"mutations": [{"type": "gaussian", "epsilon": 1}]}, "Extra inputs are not permitted"),
        ({"mutations": [{"type": "gaussian", "eps": -1}]}, "greater than or equal to 0"),
        ({"mutations": [{"type": "gaussian", "weight": 0}]}, "greater than 0"),
        ({"crossovers": [{"type": "della", "drop": 0.99}]}, "drop must lie between"),
        ({"crossovers": [{"type": "extrapolate", "eta_low": 2}]}, "eta_low"),
        ({"mutations": []}, "set crossover_share = 1"),
        ({"crossovers": []}, "set crossover_share = 0"),
        ({"selection": {"type": "roulette"}}, "truncation"),
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
        Snapshot(f"m{place}", 1, step, fitness=step + 5.0 * (place == step // 10 % 4))
        for step in range(0, 41, 10)
        for place in range(4)
    ]
    hall = hall_of_fame(past, 4)
    assert [snapshot.step for snapshot in hall] == [0, 10, 20, 40]
    assert [snapshot.member for snapshot in hall] == ["m0", "m1", "m2", "m0"]
    assert hall_of_fame(list(reversed(past)), 4) == hall
    assert hall_of_fame(past, 0) == hall_of_fame([], 3) == []
    assert len(hall_of_fame(past[:4], 3)) == 1
