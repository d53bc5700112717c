"""The model of a step on many workers, with made-up seconds."""

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from redqueen.cli.bench.scale import compare
from redqueen.cli.bench.scale_from import model_of_bench, model_of_run, model_of_speed
from redqueen.cli.bench.scale_model import (
    Observed,
    Phase,
    StepModel,
    bend,
    curve,
    fit,
    predict,
)
from redqueen.cli.bench.scale_play import Arm, Played
from redqueen.cli.bench.workload import Workload, sample_requests
from redqueen.errors import ConfigError, DataError
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


def test_blocks_that_are_trained_on_are_exchanged_until_workers_are_even() -> None:
    waiting = StepModel((Phase("sample", 1.0, 0.5),), 0.0, 8)
    exchanged = StepModel((Phase("accumulate 1", 1.0, 0.5),), 0.0, 8, move_s=0.01)
    assert predict(exchanged, 2, 64).efficiency > 0.97 > predict(waiting, 2, 64).efficiency
    heavy = replace(exchanged, move_s=10.0)
    assert predict(heavy, 2, 64).step_s > 1.02 * predict(exchanged, 2, 64).step_s, "none moves"
    alone, as_many = predict(exchanged, 8, 64), predict(waiting, 8, 64)
    assert alone.step_s == pytest.approx(as_many.step_s), "a block a worker: nothing to exchange"


def test_workers_that_share_cores_are_no_faster_than_the_cores() -> None:
    model = StepModel((Phase("sample", 1.0, 0.0, beside_s=0.5),), 0.0, 8)
    assert predict(model, 1, 32, cores=2).step_s == pytest.approx(4.0)
    assert predict(model, 2, 32, cores=2).step_s == pytest.approx(3.0)
    assert predict(model, 4, 32, cores=2).step_s == pytest.approx(3.0)
    assert predict(model, 4, 32, cores=2).limit == "cores"


def call(name: str, *seconds: float, beside: float = 0.0) -> Observed:
    blocks = dict(enumerate(seconds))
    return Observed(name, sum(seconds) + 0.2, blocks, sum(seconds) + beside + 0.2)


def test_a_model_that_is_fitted_predicts_what_it_was_fitted_to() -> None:
    def calls(*first: float) -> list[Observed]:
        own = call("sample", *first, beside=0.6)
        return [own, call("sample", 1, 1, 1), call("step", 0.2, 0.2, 0.2)]

    steps = [(10.0, calls(1, 2, 1)), (11.0, calls(2, 1, 1))]
    model = fit(steps, block_members=4, fixed_s=0.5)
    assert [phase.name for phase in model.phases] == ["sample 1", "sample 2", "step 1"]
    assert model.phases[0].block_s == pytest.approx(4 / 3)
    assert model.phases[0].beside_s == pytest.approx(0.6 / 3)
    assert model.phases[0].skew > 0.3 and model.phases[1].skew == 0
    assert model.fixed_s == 0.5
    alone = predict(model, 1, members=12)
    assert alone.step_s == pytest.approx(fmean(seconds for seconds, _ in steps), rel=0.03)


def test_a_call_about_one_block_is_the_drivers() -> None:
    steps = [(5.0, [call("sample", 1, 1), Observed("distances", 0.5, {1: 0.5}, 0.5)])]
    model = fit(steps, block_members=4)
    assert [phase.name for phase in model.phases] == ["sample 1"]
    assert model.driver_s == pytest.approx((5.0 - 2.2) / 2)


def test_what_else_was_done_on_a_workers_core_is_not_its_work() -> None:
    """One core: four seconds for two blocks, of which the worker had three."""
    steps = [(4.0, [Observed("sample", 4.0, {0: 2.0, 1: 2.0}, 4.0, 3.0)])]
    model = fit(steps, block_members=4)
    assert model.phases[0].block_s == pytest.approx(1.5)
    assert model.phases[0].beside_s == pytest.approx(0.5)
    assert predict(model, 1, 8, cores=1).step_s == pytest.approx(4.0)
    assert predict(model, 2, 8, cores=2).step_s == pytest.approx(2.0)


def test_cores_that_are_all_busy_are_slower() -> None:
    model = StepModel((Phase("sample", 1.0, 0.0),), 0.0, 8, together=1.1)
    assert predict(model, 1, 32, cores=1).step_s == pytest.approx(4.0)
    assert predict(model, 2, 32, cores=2).step_s == pytest.approx(2.2)
    assert predict(model, 4, 32, cores=2).step_s == pytest.approx(2.2), "they share two"
    assert predict(model, 2, 32).step_s == pytest.approx(2.0), "with devices of their own"


def test_a_fixed_part_of_a_step_does_not_grow_with_the_members() -> None:
    model = StepModel((Phase("sample", 1.0, 0.0),), 0.0, 8, fixed_s=0.5)
    assert predict(model, 1, 8).step_s == pytest.approx(1.5)
    assert predict(model, 1, 80).step_s == pytest.approx(10.5)


def test_steps_of_several_workers_are_compared_one_by_one() -> None:
    """The second step has twice the work, and a hiccup of the machine in the third is one of
    three."""

    def arm(workers: int, cores: int, *seconds: float) -> Arm:
        steps = [(one, [call("sample", *[one * 0.2] * 4)]) for one in seconds]
        return Arm(workers, frozenset(range(cores)), steps, [0.01] * 3, "digest")

    arms = {1: arm(1, 1, 4.0, 8.0, 4.0), 2: arm(2, 2, 2.0, 4.0, 9.0)}
    _, (alone, two) = compare(Played(arms, together=1.0, move_s=0.01, others=0.0))
    assert alone.speedup == 1 and two.speedup == 2
    assert two.step_s == pytest.approx(alone.step_s / 2) and two.same_records
    assert abs(alone.error_frac) < 0.05


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


def test_a_model_comes_from_figures_that_somebody_states() -> None:
    model = model_of_speed("1000,500", "2000,3000", members=8, skew=0.0, driver_s=0.5)
    assert predict(model, 1, 16).step_s == pytest.approx(2 * (2 + 6 + 0.5))
    with pytest.raises(ConfigError, match="--speed=65000: two numbers above 0"):
        model_of_speed("65000", "1,1", 8, 0.0, 0.0)
