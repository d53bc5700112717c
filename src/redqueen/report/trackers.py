"""Sends the metrics of every step, and a few problems with attempts at them, to TensorBoard,
Weights & Biases, Trackio or MLflow, or to a tracker of your own by import path. Each is an optional
extra, off by default.

Nothing is read back from them. The ledger has everything in any case: a tracker that fails is
logged once and dropped, and the run goes on.
"""

import importlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from redqueen.config.registry import Registry
from redqueen.core.fork import flatten
from redqueen.core.run import Run
from redqueen.core.state import StepState
from redqueen.errors import ConfigError
from redqueen.report.escape import escape_controls
from redqueen.tasks import load_kind

_log = logging.getLogger(__name__)


Sample = dict[str, Any]
"""A problem with an attempt at it, as columns of a table."""
_SAMPLES = 8
"""Of a step: enough to read along, and small for hundreds of steps."""


def sample_rows(state: StepState, count: int = _SAMPLES) -> list[Sample]:
    """An attempt at each of the step's first problems: a wrong one where there is any, which tells
    more. Control characters are made visible."""
    attempts = sorted(state.attempts, key=lambda attempt: attempt.verdict == "correct")
    by_problem = {attempt.problem.key: attempt for attempt in reversed(attempts)}
    rows = []
    for problem in state.problems[:count]:
        attempt = by_problem.get(problem.key)
        shown = load_kind(problem.kind).show(problem)
        rows.append(
            {
                "step": state.step,
                "world": state.world.arm,
                "kind": problem.kind,
                "teacher": problem.author.member if problem.author else "",
                "problem": escape_controls("\n".join(f"{name}: {text}" for name, text in shown)),
                "student": attempt.author.member if attempt and attempt.author else "",
                "attempt": escape_controls(attempt.text) if attempt else "",
                "verdict": attempt.verdict if attempt else "not attempted",
            }
        )
    return rows


def _page(row: Sample) -> list[str]:
    return [line for name, value in row.items() for line in f"{name}: {value}".splitlines()]


def _ignore(step: int, rows: Sequence[Sample]) -> None:
    """For trackers without texts."""


class Tracker(Protocol):
    """Made with the run's folder, its name and its settings."""

    def step(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def samples(self, step: int, rows: Sequence[Sample]) -> None:
        """Some problems of the step, each with an attempt. May be left out."""
        ...

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

    def samples(self, step: int, rows: Sequence[Sample]) -> None:
        # indented blocks: a text that models wrote is no markup
        texts = ("\n".join(f"    {line}" for line in _page(row)) for row in rows)
        self._writer.add_text("samples", "\n\n---\n\n".join(texts), step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run of the project `redqueen` on Weights & Biases; stays on this machine with
    WANDB_MODE=offline."""

    requires = ("wandb",)

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._library = importlib.import_module(self.requires[0])
        self._library.init(project="redqueen", name=name, config=dict(settings))

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self._library.log(dict(metrics), step=step)

    def samples(self, step: int, rows: Sequence[Sample]) -> None:
        self._library.log({"samples": self._table(rows)}, step=step)

    def _table(self, rows: Sequence[Sample]) -> Any:
        return self._library.Table(columns=list(rows[0]), data=[list(row.values()) for row in rows])

    def close(self) -> None:
        self._library.finish()


class Trackio(WeightsAndBiases):
    """A local dashboard with the interface of wandb, for `trackio show`."""

    requires = ("trackio",)

    def _table(self, rows: Sequence[Sample]) -> Any:
        pandas = importlib.import_module("pandas")
        return self._library.Table(dataframe=pandas.DataFrame(list(rows)))


_STEPS_OF_A_TABLE = 100
"""Of MLflow: a row that is added writes the whole table again, and the list of a run's tables has
to fit into one of its tags."""


class MLflow:
    """Into the store that MLFLOW_TRACKING_URI names, else into the run's folder, for
    `mlflow ui --backend-store-uri`."""

    requires = ("mlflow",)

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._library = importlib.import_module("mlflow")
        if "MLFLOW_TRACKING_URI" not in os.environ:
            self._library.set_tracking_uri(f"sqlite:///{folder.resolve() / 'mlflow.sqlite'}")
            where = (folder / "mlflow").resolve().as_uri()
            if self._library.get_experiment_by_name("redqueen") is None:
                self._library.create_experiment("redqueen", artifact_location=where)
        self._library.set_experiment("redqueen")
        self._library.start_run(run_name=name)
        flat = {path: str(value)[:500] for path, value in flatten(settings).items()}
        self._library.log_params(flat)

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self._library.log_metrics(dict(metrics), step=step)

    def samples(self, step: int, rows: Sequence[Sample]) -> None:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        first = step - step % _STEPS_OF_A_TABLE
        self._library.log_table(columns, f"samples/{first:06d}.json")

    def close(self) -> None:
        self._library.end_run()


TRACKERS: Registry[Callable[[Path, str, Mapping[str, Any]], Tracker]] = Registry(
    "tracker",
    {
        "tensorboard": TensorBoard,
        "wandb": WeightsAndBiases,
        "trackio": Trackio,
        "mlflow": MLflow,
    },
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

    def samples(self, step: int, rows: Sequence[Sample]) -> None:
        """Send some problems and attempts to those that take texts."""
        if rows:
            self._call_each(lambda tracker: getattr(tracker, "samples", _ignore)(step, rows))

    def close(self) -> None:
        self._call_each(lambda tracker: tracker.close())

    def __bool__(self) -> bool:
        return bool(self._trackers)

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
    """Start the trackers that the run's settings name.

    - `run`: the run. Send its metrics with `trackers.step(step.number, step.metrics)` after each
      step; as a context, what is returned closes the trackers at the end.
    """
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
