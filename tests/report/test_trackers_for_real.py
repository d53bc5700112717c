"""Trackers in the local modes of their own libraries, where these are installed (the extras `wandb`,
`trackio`, `mlflow`): figures, settings and texts arrive."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from redqueen.report.trackers import start_trackers

ROWS = [{"problem": "program: def f(x): return x", "attempt": "# 7 <b>", "verdict": "wrong"}]
# what the libraries warn of, and leave open, is theirs
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def use(name: str, folder: Path) -> None:
    pytest.importorskip(name, reason=f"the extra `{name}` is not installed")
    folder.mkdir(exist_ok=True)
    with start_trackers([name], folder, {"steps": 2, "update": {"kl": 0.1}}) as trackers:
        assert trackers, "it could not be started"
        for step in (1, 2):
            trackers.step(step, {"solve/pass_rate": step / 4, "solve/pass_rate/code_o": 0.5})
            trackers.samples(step, ROWS)
        assert trackers, "it failed"


def test_wandb_offline_has_a_table_of_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    use("wandb", tmp_path / "run")
    (table, *_) = tmp_path.rglob("samples_*.table.json")
    found = json.loads(table.read_text())
    assert found["columns"] == list(ROWS[0]) and found["data"] == [list(ROWS[0].values())]


def test_trackio_has_figures_and_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trackio", reason="the extra `trackio` is not installed")
    for module in ("utils", "sqlite_storage"):
        monkeypatch.setattr(f"trackio.{module}.TRACKIO_DIR", tmp_path, raising=False)
    use("trackio", tmp_path / "run")
    (file,) = tmp_path.glob("*.db")
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT step, metrics FROM metrics ORDER BY id").fetchall()
    logged = [(step, json.loads(metrics)) for step, metrics in rows]
    rates = {step: own["solve/pass_rate"] for step, own in logged if "solve/pass_rate" in own}
    assert rates == {1: 0.25, 2: 0.5}
    assert any("# 7 <b>" in json.dumps(own.get("samples", "")) for _, own in logged)


def test_mlflow_has_figures_settings_and_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    use("mlflow", tmp_path / "run")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'run' / 'mlflow.sqlite'}")
    experiment = client.get_experiment_by_name("redqueen")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.params == {"steps": "2", "update.kl": "0.1"}
    history = client.get_metric_history(run.info.run_id, "solve/pass_rate")
    assert [(one.step, one.value) for one in history] == [(1, 0.25), (2, 0.5)]
    table = client.load_table(experiment.experiment_id, "samples/000000.json")
    assert list(table.columns) == list(ROWS[0]) and table.values.tolist() == 2 * [
        list(ROWS[0].values())
    ]
