"""Trackers that others watch their runs with: TensorBoard, Weights & Biases, Trackio. Optional
extras, off unless they are asked for.

They get figures only, never texts, and nothing is read back from them. The ledger has everything in
any case: a tracker that fails is said once and left out, and the run goes on.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from redqueen.errors import ConfigError, unknown


class Tracker(Protocol):
    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """The figures of a step, by name."""
        ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run's folder, for `tensorboard --logdir`."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        writer = _needed("torch.utils.tensorboard", "tensorboard", also="tensorboard")
        self._writer = writer.SummaryWriter(str(folder / "tensorboard"))

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Logged:
    """Weights & Biases and Trackio, which share an interface."""

    module = ""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._library = _needed(self.module, self.module)
        self._library.init(project="redqueen", name=name, config=dict(settings))

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self._library.log(dict(metrics), step=step)

    def close(self) -> None:
        self._library.finish()


class WeightsAndBiases(_Logged):
    module = "wandb"


class Trackio(_Logged):
    module = "trackio"


TRACKERS: dict[str, Callable[[Path, str, Mapping[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "trackio": Trackio,
}


class Trackers:
    """Those that were asked for, together."""

    def __init__(self, trackers: Mapping[str, Tracker], say: Callable[[str], None]) -> None:
        self._trackers, self._say = dict(trackers), say

    def step(self, step: int, metrics: Mapping[str, float], world: str = "") -> None:
        """Hand on a step's figures; those of several worlds are told apart by a prefix."""
        named = (
            {f"{world}/{name}": value for name, value in metrics.items()}
            if world
            else dict(metrics)
        )
        for name in list(self._trackers):
            self._try(name, lambda tracker: tracker.step(step, named))

    def close(self) -> None:
        for name in list(self._trackers):
            self._try(name, lambda tracker: tracker.close())

    def _try(self, name: str, what: Callable[[Tracker], None]) -> None:
        try:
            what(self._trackers[name])
        except Exception as error:
            self._say(f"the tracker {name} failed and is left out from here on: {error}")
            del self._trackers[name]


def open_trackers(
    names: Sequence[str], folder: Path, settings: Mapping[str, Any], say: Callable[[str], None]
) -> Trackers:
    """The trackers of these names for the run in a folder; none, for none."""
    check_trackers(names)
    return Trackers(
        {name: TRACKERS[name](folder, folder.resolve().name, settings) for name in names}, say
    )


def check_trackers(names: Sequence[str]) -> None:
    """A name that is none, or a library that is not installed, is an error before anything is
    begun."""
    for name in names:
        if name not in TRACKERS:
            raise ConfigError(unknown("tracker", name, TRACKERS))
        _needed(name, name)


def _needed(module: str, extra: str, also: str | None = None) -> Any:
    try:
        if also is not None:
            importlib.import_module(also)
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"the tracker {extra} is not installed: pip install 'redqueen[{extra}]'"
        ) from error
