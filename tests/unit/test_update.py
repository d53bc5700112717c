"""Advantages by hand: what each estimator makes of rewards, and that no member's depend on
another's."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from random import Random

import pytest

from redqueen.records import Rollout
from redqueen.stages.update.advantages import ESTIMATORS, Sample, estimate_advantages

ROLLOUT = Rollout((1,), (2,), (-0.5,), "stop")
EVERY = sorted(ESTIMATORS)


def sample(
    reward: float,
    group: int | str = 0,
    member: str = "S0",
    role: str = "student",
    kind: str = "code_o",
) -> Sample:
    return Sample(member, group, role, kind, ROLLOUT, reward)


def estimate(estimator: str, samples: Sequence[Sample]) -> list[float]:
    return estimate_advantages(samples, ESTIMATORS.choose(estimator))


TWO_GROUPS = [
    sample(1.0, 0),
    sample(-0.5, 0),
    sample(1.0, 1),
    sample(1.0, 1),
    sample(-0.5, 1),
    sample(-1.0, 1),
]
# less their means, 0.25 and 0.125: +-0.75, and 0.875, 0.875, -0.625, -1.125
SPREAD_OF_ALL = sqrt((2 * 0.75**2 + 2 * 0.875**2 + 0.625**2 + 1.125**2) / 6)
SPREAD_OF_SECOND = sqrt((2 * 0.875**2 + 0.625**2 + 1.125**2) / 4)


def test_reinforce_pp_takes_off_the_mean_of_the_prompt_and_whitens_over_the_batch() -> None:
    centred = [0.75, -0.75, 0.875, 0.875, -0.625, -1.125]
    assert estimate("reinforce_pp", TWO_GROUPS) == pytest.approx(
        [value / SPREAD_OF_ALL for value in centred]
    )


def test_reinforce_pp_counts_a_sample_that_is_just_as_good_as_its_prompt() -> None:
    """It learns nothing, but it belongs to a group that does."""
    assert estimate("reinforce_pp", [sample(1.0), sample(0.0), sample(0.5)]) == pytest.approx(
        [sqrt(1.5), -sqrt(1.5), 0.0]
    )


def test_grpo_whitens_within_the_prompt() -> None:
    expected = [1.0, -1.0, *(value / SPREAD_OF_SECOND for value in (0.875, 0.875, -0.625, -1.125))]
    assert estimate("grpo", TWO_GROUPS) == pytest.approx(expected)


def test_rloo_takes_off_the_mean_of_the_others() -> None:
    assert estimate("rloo", TWO_GROUPS) == pytest.approx(
        [1.5, -1.5, 1 + 0.5 / 3, 1 + 0.5 / 3, -0.5 - 1 / 3, -1 - 1.5 / 3]
    )


def test_trr_pp_whitens_for_each_role_and_kind() -> None:
    samples = [
        sample(1.0, 0), sample(0.0, 1),
        sample(3.0, 2, kind="code_i"), sample(1.0, 3, kind="code_i"),
        sample(0.9, 4, role="teacher"), sample(0.1, 5, role="teacher"),
    ]  # fmt: skip
    assert estimate("trr_pp", samples) == pytest.approx([1, -1, 1, -1, 1, -1])


def test_trr_pp_counts_tokens_not_samples() -> None:
    """Three tokens at reward 1 and one at 0: mean 3/4, deviation sqrt(3)/4."""
    long = replace(sample(1.0, 0), rollout=Rollout((1,), (2, 2, 2), (-0.5,) * 3, "stop"))
    assert estimate("trr_pp", [long, sample(0.0, 1)]) == pytest.approx([1 / sqrt(3), -sqrt(3)])


@pytest.mark.parametrize("estimator", EVERY)
def test_a_group_without_differences_teaches_nothing_and_does_not_change_the_others(
    estimator: str,
) -> None:
    apart = [
        sample(1.0, 0),
        sample(-0.5, 0),
    ]
    alike = [
        sample(reward, 7, kind="code_i") for reward in (0.3, 0.3, 0.1 + 0.2)
    ]  # 0.1 + 0.2 is 0.30000000000000004
    assert estimate(estimator, [*apart, *alike]) == [*estimate(estimator, apart), 0.0, 0.0, 0.0]
    assert estimate(estimator, alike) == [0.0, 0.0, 0.0]
    assert estimate(estimator, [sample(1.0)]) == [0.0]
    assert estimate(estimator, []) == []


@pytest.mark.parametrize("estimator", EVERY)
def test_a_member_learns_the_same_whoever_else_there_is(estimator: str) -> None:
    rng = Random(3)
    mine = [sample(rng.choice([1.0, -0.5, -1.0]), number // 4) for number in range(24)]
    others = [
        sample(100 * rng.random(), number // 3, member=f"S{1 + number % 2}") for number in range(24)
    ]
    mixed = [item for pair in zip(mine, others, strict=True) for item in pair]
    assert estimate(estimator, mixed)[::2] == estimate(estimator, mine)
    assert estimate(estimator, others + mine)[24:] == estimate(estimator, mine)


@pytest.mark.parametrize("estimator", ["reinforce_pp", "trr_pp", "grpo"])
def test_rewards_that_hardly_differ_are_not_blown_up(estimator: str) -> None:
    tiny = estimate(estimator, [sample(0.5), sample(0.5 + 1e-6)])
    assert max(map(abs, tiny)) < 1e-4


@pytest.mark.parametrize("estimator", EVERY)
def test_better_than_its_prompt_is_positive_and_a_prompt_adds_up_to_nothing(estimator: str) -> None:
    rng = Random(4)
    samples = [sample(rng.random(), number // 5) for number in range(20)]
    values = estimate(estimator, samples)
    if estimator != "trr_pp":  # its baseline is that of the kind
        for group in range(4):
            mine = slice(5 * group, 5 * group + 5)
            mean = sum(item.reward for item in samples[mine]) / 5
            assert all(
                (value > 0) == (item.reward > mean)
                for value, item in zip(values[mine], samples[mine], strict=True)
            )
            assert sum(values[mine]) == pytest.approx(0)
    assert sum(values) == pytest.approx(0)


def test_whitened_advantages_have_unit_spread() -> None:
    rng = Random(5)
    values = estimate(
        "reinforce_pp", [sample(rng.choice([1.0, -0.5]), number // 8) for number in range(80)]
    )
    nonzero = [value for value in values if value]
    assert sum(value * value for value in nonzero) / len(nonzero) == pytest.approx(1)
