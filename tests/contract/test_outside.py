"""An outside package supplies one of each thing by import path, and a run uses all of them: the
proof that the ports are ports."""

from pathlib import Path

import pytest

import redqueen as rq
from redqueen.ledger.store import digest
from tests.outside import things

HERE = "tests.outside.things:"
SETTINGS = {
    "seed": 1,
    "steps": 6,
    "base": "none",
    "engine": {"type": "tests.outside.engine:TinyEngine"},
    "sandbox": {"type": f"{HERE}NoSandbox"},
    "tasks": {"kinds": ["examples.custom_task:Sums"]},
    "archive": {"seeds": "tests.outside.seeds:one_sum", "policy": f"{HERE}policy"},
    "population": {"teachers": 2, "students": 2},
    "match": {"scheme": f"{HERE}scheme"},
    "rate": {"outcome": f"{HERE}outcome"},
    "propose": {"prompts": 1, "samples": 8},
    "solve": {"attempts": 4},
    "reward": {
        "teacher": {"type": f"{HERE}teacher_reward", "top": 2.0},
        "student": f"{HERE}student_reward",
    },
    "update": {"estimator": f"{HERE}estimator", "loss": f"{HERE}loss", "learning_rate": 0.2},
    "evolve": {
        "every": 3,
        "share": 0.5,
        "fitness": f"{HERE}fitness",
        "teacher_fitness": f"{HERE}teacher_fitness",
        "selection": f"{HERE}selection",
        "crossover_share": 0.0,
        "mutations": [{"type": f"{HERE}mutation", "settings": {"shrink": 0.9}}],
    },
    "evaluate": {"suite": f"{HERE}TenSums"},
    "trackers": [f"{HERE}Recorder"],
}


def test_a_run_uses_everything_that_an_outside_package_supplies(tmp_path: Path) -> None:
    things.USED.clear()
    config = rq.load_config(**SETTINGS)  # type: ignore[arg-type]
    with rq.Run.create(config, tmp_path / "run") as run:
        with rq.track(run) as trackers:
            rates = []
            for step in run:
                trackers.step(step.number, step.metrics)
                rates.append(step.metrics["solve/pass_rate"])
        result = rq.evaluate(run, config.evaluate.suite)
    assert rates[-1] > rates[0] + 0.1, rates
    assert {
        "teacher reward", "student reward", "estimator", "loss", "match scheme", "rating outcome",
        "fitness", "teacher fitness", "selection", "mutation", "archive policy", "tracker", "sandbox", "suite",
    } == things.USED  # fmt: skip
    assert len((tmp_path / "run" / "recorder.jsonl").read_text().splitlines()) == 6
    assert result is not None
    with rq.open_run(tmp_path / "run") as reader:
        assert {row["operator"] for row in reader.births()} == {"new", f"{HERE}mutation"}


def test_a_run_on_another_engine_resumes_to_the_same_records(tmp_path: Path) -> None:
    config = rq.load_config(**SETTINGS)  # type: ignore[arg-type]
    with rq.Run.create(config, tmp_path / "straight") as run:
        for _ in run:
            pass
    with rq.Run.create(config, tmp_path / "stopped") as run:
        for step in run:
            if step.number == 4:
                break
    with rq.Run.resume(tmp_path / "stopped") as run:
        assert run.step == 4
        assert [step.number for step in run] == [5, 6]
    assert digest(tmp_path / "straight") == digest(tmp_path / "stopped")


@pytest.mark.parametrize("section", ["engine", "sandbox"])
def test_an_engine_or_sandbox_that_cannot_be_imported_is_named(
    section: str, tmp_path: Path
) -> None:
    config = rq.load_config(**{**SETTINGS, section: {"type": "nowhere:Thing"}})  # type: ignore[arg-type]
    with pytest.raises(rq.RedQueenError, match=r"nowhere:Thing' cannot be imported"):
        rq.Run.create(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
