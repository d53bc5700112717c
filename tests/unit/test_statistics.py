"""Wilson's interval against values from the literature and its own properties."""

import math

import pytest

from redqueen.evaluate.statistics import Accuracy


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
