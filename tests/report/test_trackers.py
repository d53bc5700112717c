"""Trackers get every figure, are off unless asked for, and never end a run."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import pytest

from redqueen.errors import ConfigError
from redqueen.report.trackers import TRACKERS, Trackers, check_trackers, start_trackers


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
    trackers = Trackers({"notebook": notebook})
    trackers.step(1, {"solve/pass_rate": 0.5})
    trackers.step(2, {"solve/pass_rate": 0.6}, world="full-0")
    trackers.close()
    assert (
        notebook.told == [(1, {"solve/pass_rate": 0.5}), (2, {"full-0/solve/pass_rate": 0.6})]
        and notebook.closed
    )


def test_a_tracker_that_fails_is_logged_once_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    torn, whole = Notebook(torn=True), Notebook()
    trackers = Trackers({"torn": torn, "whole": whole})
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
def test_a_tracker_that_is_not_installed_says_what_to_install(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed")
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
