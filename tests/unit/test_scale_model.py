"""The model of a step on many workers, with made-up seconds."""

from itertools import pairwise
from statistics import fmean

import pytest

from redqueen.cli.bench.scale_model import (
    Observed,
    Phase,
    StepModel,
    bend,
    curve,
    fit,
    predict,
)

EVEN = StepModel((Phase("sample", 2.0, 0.0), Phase("accumulate", 1.0, 0.0)), 0.0, 8)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 24.0), (2, 12.0), (3, 9.0), (8, 3.0)])
def test_even_blocks_take_as_long_as_the_worker_with_the_most(workers: int, seconds: float) -> None:
    prediction = predict(EVEN, workers, members=64)
    assert prediction.step_s == pytest.approx(seconds)
    assert prediction.efficiency == pytest.approx(24 / workers / seconds)


def test_more_workers_than_blocks_are_of_no_use() -> None:
    prediction = predict(EVEN, 16, members=64)
    assert prediction.step_s == pytest.approx(3.0) and prediction.limit == "blocks"


def test_what_the_driver_does_is_not_divided() -> None:
    model = StepModel((Phase("sample", 1.0, 0.0, driver_s=0.01),), 0.09, 8)
    assert predict(model, 1, 64).step_s == pytest.approx(8 * 1.1)
    assert predict(model, 8, 64).step_s == pytest.approx(1 + 8 * 0.1)
    assert predict(model, 8, 64).limit == "driver"


def test_skewed_blocks_make_workers_wait_for_the_slowest() -> None:
    skewed = StepModel((Phase("sample", 1.0, 0.5),), 0.0, 8)
    alone, many = predict(skewed, 1, 512), predict(skewed, 64, 512)
    assert alone.step_s == pytest.approx(64, rel=0.03), "the mean is kept"
    assert many.step_s > 2 and many.limit == "slowest worker"
    assert predict(skewed, 8, 512).efficiency > many.efficiency


def test_workers_that_share_cores_are_no_faster_than_the_cores() -> None:
    model = StepModel((Phase("sample", 1.0, 0.0, beside_s=0.5),), 0.0, 8)
    assert predict(model, 1, 32, cores=2).step_s == pytest.approx(4.0)
    assert predict(model, 2, 32, cores=2).step_s == pytest.approx(3.0)
    assert predict(model, 4, 32, cores=2).step_s == pytest.approx(3.0)
    assert predict(model, 4, 32, cores=2).limit == "cores"


def test_a_model_that_is_fitted_predicts_what_it_was_fitted_to() -> None:
    def call(name: str, *seconds: float) -> Observed:
        return Observed(name, sum(seconds) + 0.2, dict(enumerate(seconds)), sum(seconds) + 0.4)

    steps = [
        (10.0, [call("sample", 1, 2, 1), call("sample", 1, 1, 1), call("step", 0.2, 0.2, 0.2)]),
        (11.0, [call("sample", 2, 1, 1), call("sample", 1, 1, 1), call("step", 0.2, 0.2, 0.2)]),
    ]
    model = fit(steps, block_members=4)
    assert [phase.name for phase in model.phases] == ["sample", "step"]
    assert model.phases[0].block_s == pytest.approx(7 / 3)
    assert model.phases[0].beside_s == pytest.approx(0.8 / 3)
    alone = predict(model, 1, members=12)
    assert alone.step_s == pytest.approx(fmean(seconds for seconds, _ in steps), rel=0.03)


def test_the_curve_says_where_it_bends() -> None:
    model = StepModel((Phase("sample", 1.0, 0.2),), 0.01, 8)
    predictions = curve(model, members=1024)
    assert [one.workers for one in predictions] == [1, 2, 4, 8, 16, 32, 64]
    assert all(a.step_s > b.step_s for a, b in pairwise(predictions))
    bent = bend(predictions)
    assert bent is not None and bent.limit == "driver" and bent.workers == 16
    assert bend(predictions[:2]) is None
