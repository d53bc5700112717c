"""Intervals and tests against values from the literature, and by how often they are right."""

import math
from random import Random

import pytest

from redqueen.evaluate.statistics import (
    Accuracy,
    holm,
    mean_interval,
    paired_difference,
    t_interval,
    t_p,
    t_quantile,
    t_tail,
    welch_detectable,
    welch_difference,
)


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons(correct: int, n: int, low: float, high: float) -> None:
    assert Accuracy(correct, n).interval() == pytest.approx((low, high), abs=5e-5)


def test_the_interval_holds_the_share_and_narrows_with_more_items() -> None:
    for correct in range(11):
        low, high = Accuracy(correct, 10).interval()
        narrow_low, narrow_high = Accuracy(100 * correct, 1000).interval()
        assert 0 <= low <= narrow_low <= correct / 10 <= narrow_high <= high <= 1


def test_nothing_measured_is_no_share_and_the_whole_interval() -> None:
    assert math.isnan(Accuracy(0, 0).value)
    assert Accuracy(0, 0).interval() == (0.0, 1.0)


def test_to_json_has_share_count_and_interval() -> None:
    assert Accuracy(1, 3).to_json() == {"accuracy": 0.3333, "n": 3, "interval": [0.0615, 0.7923]}


@pytest.mark.parametrize(
    ("freedom", "reach"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (5, 2.57058), (10, 2.22814), (120, 1.97993)],
)
def test_quantiles_of_t_are_those_of_the_tables(freedom: float, reach: float) -> None:
    assert t_quantile(freedom) == pytest.approx(reach, abs=1e-5)
    assert t_tail(reach, freedom) == pytest.approx(0.05, abs=1e-5)


def test_a_paired_difference_of_three_seeds_has_the_interval_of_the_textbook() -> None:
    assert t_interval([1.0, 0.2, -0.5]) == pytest.approx((-1.631, 2.098), abs=1e-3)
    assert t_p([1.0, 0.2, -0.5]) == pytest.approx(0.644, abs=1e-3)
    assert t_interval([1.0]) is None and t_p([1.0]) is None
    assert mean_interval([0.5]) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("seeds", range(3, 11))
def test_intervals_over_seeds_hold_the_truth_as_often_as_they_say(seeds: int) -> None:
    random, trials = Random(seeds), 3000
    held = 0
    for _ in range(trials):
        interval = t_interval([random.gauss(0.6, 0.02) for _ in range(seeds)])
        assert interval is not None
        held += interval[0] <= 0.6 <= interval[1]
    assert 0.93 <= held / trials <= 0.97


@pytest.mark.parametrize("seeds", [3, 5, 8])
def test_differences_without_pairs_hold_the_truth_as_often_as_they_say(seeds: int) -> None:
    random, trials, held = Random(seeds), 3000, 0
    for _ in range(trials):
        first, second = ([random.gauss(0, spread) for _ in range(seeds)] for spread in (0.02, 0.03))
        interval, p = welch_difference(first, second) or ((0, 0), 0)
        held += interval[0] <= 0 <= interval[1]
        assert (p < 0.05) == (not interval[0] <= 0 <= interval[1])
    assert 0.93 <= held / trials <= 0.97


def test_holm_multiplies_the_smallest_p_most_and_keeps_their_order() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.6, 0.7]) == [1.0, 1.0] and holm([]) == []


def test_equal_values_leave_no_doubt() -> None:
    assert t_p([0.5, 0.5, 0.5]) == 0.0 and t_p([0.0, 0.0]) == 1.0
    assert welch_difference([1.0, 1.0], [1.0, 1.0]) == ((0.0, 0.0), 1.0)
    assert welch_difference([1.0], [1.0, 2.0]) is None


def test_a_difference_that_is_called_detectable_is_found_four_times_in_five() -> None:
    random, found, sizes = Random(1), 0, []
    for _ in range(1500):
        first, second = ([random.gauss(shift, 0.02) for _ in range(6)] for shift in (0.036, 0.0))
        sizes.append(welch_detectable(first, second) or 0.0)
        interval, _ = welch_difference(first, second) or ((0, 0), 0)
        found += interval[0] > 0
    assert sum(sizes) / len(sizes) == pytest.approx(0.036, abs=0.002)
    assert 0.75 < found / 1500 < 0.85


def test_a_sign_test_over_thousands_of_items_has_a_p() -> None:
    scores = [1.0] * 1300 + [0.0] * 1200
    difference = paired_difference(scores, scores[::-1])
    assert (difference.better, difference.worse, difference.p) == (1200, 1200, 1.0)
    better = paired_difference([1.0] * 1100 + [0.0] * 900, [0.0] * 1100 + [1.0] * 900)
    assert better.p == pytest.approx(8.5e-6, rel=0.01)
