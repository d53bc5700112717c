"""Sends the metrics of every step to TensorBoard, Weights & Biases or Trackio, or to a tracker of
your own by import path. Each is an optional extra, off by default.

Trackers get numbers only, never texts, and nothing is read back from them. The ledger has
everything in any case: a tracker that fails is logged once and dropped, and the run goes on.
"""

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from redqueen.config.registry import Registry
from redqueen.core.run import Run
from redqueen.errors import ConfigError

_log = logging.getLogger(__name__)


class Tracker(Protocol):
    """Made with the run's folder, its name and its settings."""

    def step(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run's folder, for `tensorboard --logdir`."""

    requires = ("tensorboard",)

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        writer = importlib.import_module("torch.utils.tensorboard")
        self._writer = writer.SummaryWriter(str(folder / "tensorboard"))

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    requires = ("wandb",)

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._library = importlib.import_module(self.requires[0])
        self._library.init(project="redqueen", name=name, config=dict(settings))

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self._library.log(dict(metrics), step=step)

    def close(self) -> None:
        self._library.finish()


class Trackio(WeightsAndBiases):
    """Has the interface of wandb."""

    requires = ("trackio",)


TRACKERS: Registry[Callable[[Path, str, Mapping[str, Any]], Tracker]] = Registry(
    "tracker", {"tensorboard": TensorBoard, "wandb": WeightsAndBiases, "trackio": Trackio}
)


class Trackers:
    """The trackers of a run, by name. A context manager: closes them at the end."""

    def __init__(self, trackers: Mapping[str, Tracker]) -> None:
        self._trackers = dict(trackers)

    def step(self, step: int, metrics: Mapping[str, float], world: str = "") -> None:
        """Send the metrics of a step; `world` is a prefix that tells several worlds apart."""
        prefix = f"{world}/" if world else ""
        named = {f"{prefix}{name}": value for name, value in metrics.items()}
        self._call_each(lambda tracker: tracker.step(step, named))

    def close(self) -> None:
        self._call_each(lambda tracker: tracker.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _call_each(self, call: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                call(tracker)
            except Exception as error:  # noqa: BLE001  (whatever it raises, the run goes on)
                _log.warning("the tracker %s failed and is dropped: %s", name, error)
                del self._trackers[name]


def track(run: Run) -> Trackers:
    """Start the trackers that the run's settings name."""
    return start_trackers(run.config.trackers, run.folder, run.config.model_dump(mode="json"))


def start_trackers(names: Sequence[str], folder: Path, settings: Mapping[str, Any]) -> Trackers:
    check_trackers(names)
    run_name, trackers = folder.resolve().name, {}
    for name in names:
        try:
            trackers[name] = TRACKERS[name](folder, run_name, settings)
        except Exception as error:  # noqa: BLE001  (whatever it raises, the run goes on)
            _log.warning("the tracker %s cannot be started and is dropped: %s", name, error)
    return Trackers(trackers)


def check_trackers(names: Sequence[str]) -> None:
    """Fail early on an unknown tracker, or one whose library is not installed."""
    for name in names:
        for module in getattr(TRACKERS[name], "requires", ()):
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise ConfigError(
                    f"the tracker {name} needs {module}: pip install 'redqueen[{name}]'"
                ) from error
