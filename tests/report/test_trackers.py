"""Trackers get every figure, are off unless asked for, and never end a run."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from redqueen.core.state import StepState
from redqueen.errors import ConfigError
from redqueen.records import Attempt, Author, Problem
from redqueen.report.trackers import (
    TRACKERS,
    Tracker,
    Trackers,
    check_trackers,
    sample_rows,
    start_trackers,
)
from redqueen.tasks.code.programs import Code


class Library:
    """In the place of a tracker's library: writes down every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*values: Any, **named: Any) -> Any:
            self.calls.append((name, values, named))
            return None if name == "get_experiment_by_name" else self

        return call

    def named(self, name: str) -> list[Any]:
        return [(values, named) for called, values, named in self.calls if called == name]


ROWS = [{"problem": "program: def f(x): return x", "attempt": "# 7", "verdict": "wrong"}]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr("redqueen.report.trackers.importlib.import_module", lambda name: library)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return library


def use(name: str, folder: Path) -> None:
    with start_trackers([name], folder, {"steps": 2, "update": {"kl": 0.1}}) as trackers:
        trackers.step(1, {"solve/pass_rate": 0.5})
        trackers.samples(1, ROWS)


def test_wandb_gets_figures_and_a_table_of_texts(library: Library, tmp_path: Path) -> None:
    use("wandb", tmp_path)
    assert library.named("init")[0][1]["config"] == {"steps": 2, "update": {"kl": 0.1}}
    columns = {"columns": ["problem", "attempt", "verdict"], "data": [list(ROWS[0].values())]}
    assert library.named("Table") == [((), columns)]
    figures, table = library.named("log")
    assert figures == (({"solve/pass_rate": 0.5},), {"step": 1}) and "samples" in table[0][0]
    assert library.calls[-1][0] == "finish"


def test_trackio_gets_its_own_kind_of_table(library: Library, tmp_path: Path) -> None:
    use("trackio", tmp_path)
    assert library.named("DataFrame") == [((ROWS,), {})]
    assert "dataframe" in library.named("Table")[0][1] and len(library.named("log")) == 2


def test_mlflow_gets_settings_by_path_and_a_table_of_texts(
    library: Library, tmp_path: Path
) -> None:
    use("mlflow", tmp_path)
    assert library.named("log_params") == [(({"steps": "2", "update.kl": "0.1"},), {})]
    assert library.named("log_metrics") == [(({"solve/pass_rate": 0.5},), {"step": 1})]
    columns = {name: [value] for name, value in ROWS[0].items()}
    assert library.named("log_table") == [((columns, "samples/000000.json"), {})]
    assert str(tmp_path) in library.named("set_tracking_uri")[0][0][0]


def test_tensorboard_shows_texts_as_they_are(library: Library, tmp_path: Path) -> None:
    use("tensorboard", tmp_path)
    ((name, text, step), _) = library.named("add_text")[0]
    assert (name, step) == ("samples", 1) and "    attempt: # 7" in text.splitlines()


def test_samples_are_the_problems_of_a_step_with_a_wrong_attempt_where_there_is_one() -> None:
    problems = [
        Problem(key, "code_o", Code("def f(x): return x", ("1",)), ("1",), {}, Author("T0", 0), 1)
        for key in ("a", "b")
    ]
    state = SimpleNamespace(
        step=1,
        world=SimpleNamespace(arm="run"),
        problems=problems,
        attempts=[
            Attempt(problems[0], "right", "correct", author=Author("S0", 0)),
            Attempt(problems[0], "wrong \x1b[2J", "wrong", author=Author("S1", 0)),
        ],
    )
    first, second = sample_rows(cast(StepState, state))
    assert (first["teacher"], first["student"], first["verdict"]) == ("T0", "S1", "wrong")
    assert "\x1b" not in first["attempt"] and "output: 1" in first["problem"]
    assert second["verdict"] == "not attempted"
    assert len(sample_rows(cast(StepState, state), 1)) == 1


def test_a_tracker_without_texts_is_left_alone() -> None:
    notebook = Notebook()
    trackers = Trackers({"notebook": cast(Tracker, notebook)})
    trackers.samples(1, ROWS)
    trackers.step(2, {"a": 1.0})
    assert notebook.told == [(2, {"a": 1.0})]


class Notebook:
    """A tracker that writes down what it is told; a torn one fails at the second step."""

    def __init__(self, torn: bool = False) -> None:
        self.told: list[tuple[int, dict[str, float]]] = []
        self.torn, self.closed = torn, False

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        if self.torn and self.told:
            raise OSError("no page left")
        self.told.append((step, dict(metrics)))

    def close(self) -> None:
        self.closed = True


def test_a_tracker_gets_every_figure_of_every_step() -> None:
    notebook = Notebook()
    trackers = Trackers({"notebook": cast(Tracker, notebook)})
    trackers.step(1, {"solve/pass_rate": 0.5})
    trackers.step(2, {"solve/pass_rate": 0.6}, world="full-0")
    trackers.close()
    assert (
        notebook.told == [(1, {"solve/pass_rate": 0.5}), (2, {"full-0/solve/pass_rate": 0.6})]
        and notebook.closed
    )


def test_a_tracker_that_fails_is_logged_once_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    torn, whole = Notebook(torn=True), Notebook()
    trackers = Trackers({"torn": cast(Tracker, torn), "whole": cast(Tracker, whole)})
    for step in range(1, 5):
        trackers.step(step, {"a": 1.0})
    trackers.close()
    assert caplog.messages == ["the tracker torn failed and is dropped: no page left"]
    assert len(whole.told) == 4 and whole.closed and not torn.closed


def test_none_are_opened_unless_asked_for(tmp_path: Path) -> None:
    start_trackers([], tmp_path, {}).step(1, {"a": 1.0})
    assert not list(tmp_path.iterdir())


def test_an_unknown_tracker_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'tensorboard'"):
        start_trackers(["tensorbord"], tmp_path, {})


def make_notebook(folder: Path, name: str, settings: Mapping[str, object]) -> Notebook:
    (folder / f"{name}.notes").write_text(f"{settings}")
    return Notebook()


def test_a_tracker_of_ones_own_is_given_by_import_path(tmp_path: Path) -> None:
    name = f"{__name__}:make_notebook"
    check_trackers([name])
    with start_trackers([name], tmp_path, {"seed": 1}) as trackers:
        trackers.step(1, {"a": 1.0})
    assert (tmp_path / f"{tmp_path.name}.notes").read_text() == "{'seed': 1}"
    with pytest.raises(ConfigError, match="cannot be imported"):
        check_trackers(["nowhere.at_all:Tracker"])


@pytest.mark.parametrize("name", sorted(TRACKERS))
def test_a_tracker_that_is_not_installed_says_what_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"redqueen\[{name}\]"):
        start_trackers([name], tmp_path, {})


def test_tensorboard_reads_back_what_was_tracked(tmp_path: Path) -> None:
    reading = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="the extra `tensorboard` is not installed",
    )
    trackers = start_trackers(["tensorboard"], tmp_path, {})
    for step in (1, 2):
        trackers.step(step, {"solve/pass_rate": step / 4})
    trackers.close()
    events = reading.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("solve/pass_rate")] == [
        (1, 0.25),
        (2, 0.5),
    ]
