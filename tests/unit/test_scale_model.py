"""The model of a step on many workers, with made-up seconds."""

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from redqueen.cli.bench.scale_from import model_of_bench, model_of_run
from redqueen.cli.bench.scale_model import (
    Observed,
    Phase,
    StepModel,
    bend,
    curve,
    fit,
    predict,
)
from redqueen.cli.bench.workload import Workload, sample_requests
from redqueen.errors import DataError
from tests.report.synthetic import Synthetic

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


def test_a_model_comes_from_what_a_run_has_written_down(tmp_path: Path) -> None:
    Synthetic(steps=4).write(tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / "run.sqlite")) as connection, connection:
        connection.execute("INSERT OR REPLACE INTO run (name, value) VALUES ('blocks', '[8, 8]')")
        connection.executemany(
            "INSERT INTO metrics (world, step, name, value) VALUES (0, ?, ?, ?)",
            [(step, f"time/worker/{n}/busy_s", 3.0 + n) for step in range(1, 5) for n in (0, 1)],
        )
        connection.execute("DELETE FROM timings")
        connection.executemany(
            "INSERT INTO timings (step, stage, seconds, waited_s) VALUES (?, ?, ?, 0)",
            [(step, stage, 3.0) for step in range(1, 5) for stage in ("propose", "solve")],
        )
    model = model_of_run(tmp_path / "run")
    assert model.block_members == 8
    assert model.phases[0].block_s == pytest.approx(3.5), "7 s of work in 2 blocks"
    assert model.driver_s == pytest.approx(1.0), "6 s less the 4 s of the busier worker"
    assert model.phases[0].skew == 0, "there is one world"


def test_a_model_comes_from_the_speed_of_the_engine(tmp_path: Path) -> None:
    workload = Workload(8, 16, 8, 64, 8, 160, 4, 1, True)
    tokens = sum(request.max_tokens for request in sample_requests(workload, 8))
    figures = {"workload": asdict(workload), "tokens_per_s": 100.0, "train_tokens_per_s": 1000.0}
    (tmp_path / "bench.json").write_text(json.dumps(figures))
    model = model_of_bench(tmp_path / "bench.json")
    assert [phase.name for phase in model.phases] == ["sample", "accumulate"]
    assert model.phases[0].block_s == pytest.approx(tokens / 100)
    assert model.block_members == 8 and 0 < model.phases[0].skew < 0.2
    (tmp_path / "bench.json").write_text("{}")
    with pytest.raises(DataError, match="bench engine --json"):
        model_of_bench(tmp_path / "bench.json")
