"""`redqueen run`, `study` and `resume`: play a run, with progress, measurements and a final
report."""

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from redqueen.cli.console import note, warn_if_unsafe
from redqueen.cli.dry_run import show_plan
from redqueen.cli.final import show_final, show_next
from redqueen.cli.measure import check_suite, measure, measure_if_due
from redqueen.cli.options import (
    MovedBase,
    RunFolder,
    Settings,
    complete_recipe,
    complete_study,
)
from redqueen.cli.progress import StepProgress
from redqueen.cli.report import write_report
from redqueen.config.study import load_study
from redqueen.config.toml import find_recipe, load_config, recipe_names
from redqueen.core.build import Arm, check_arms
from redqueen.core.run import Run, StepResult
from redqueen.errors import RedQueenError
from redqueen.report.trackers import Trackers, check_trackers, sample_rows, track

STOPPED_EARLY, SIGNALLED = 3, 128
"""Exit codes: nothing was left to learn before all steps were played; a signal ended the run, whose
number is added: 130 for Ctrl-C, 143 for SIGTERM."""
_RECIPES = ", ".join(recipe_names(studies=False))
Out = Annotated[
    Path | None, typer.Option(help="Folder of the run; by default a new one in ./runs.")
]

OtherBase = Annotated[
    str | None,
    typer.Option(
        help="The base: `pawn`, `pawn-games`, a folder, a .gguf file, or owner/model on the hub."
    ),
]
OtherDevice = Annotated[
    str | None, typer.Option(help="auto (the GPU where there is one), cpu, cuda or cuda:1.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only print what it would load, and the memory and time it would need."
    ),
]


def run(
    recipe: Annotated[
        str,
        typer.Argument(
            help=f"A TOML file, or a recipe by name: {_RECIPES}.", autocompletion=complete_recipe
        ),
    ] = "pawn-cpu",
    out: Out = None,
    base: OtherBase = None,
    device: OtherDevice = None,
    dry_run: DryRun = False,
    settings: Settings = None,
) -> None:
    """Play the arms race: teachers invent problems, students solve them, both learn. Without
    arguments: on a laptop, in minutes.

    `redqueen config` prints every setting there is. Ctrl-C ends after the step, a second one at
    once; `redqueen resume` goes on.
    """
    path = find_recipe(recipe)
    config = load_config(path, _override(base, device, settings))
    _start([("run", config)], path.stem, out, dry_run)


def study(
    file: Annotated[
        str,
        typer.Argument(
            help="A study by name, or a TOML file: arms, seeds, common settings.",
            autocompletion=complete_study,
        ),
    ] = "study-pawn",
    arm: Annotated[
        list[str] | None,
        typer.Option(help="Only this arm; may be repeated. By default all."),
    ] = None,
    out: Out = None,
    base: OtherBase = None,
    device: OtherDevice = None,
    dry_run: DryRun = False,
    settings: Settings = None,
) -> None:
    """Play several sets of rules, with several seeds each, as worlds of one run on one base.

    `--set seeds=[3,4]` plays other seeds than the file names.
    """
    path = find_recipe(file)
    worlds = load_study(path, _override(base, device, settings), arm or ())
    _start(worlds, path.stem, out, dry_run)


def _override(base: str | None, device: str | None, settings: Sequence[str] | None) -> list[str]:
    own = [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in (("base", base), ("device", device))
        if value is not None
    ]
    return [*own, *(settings or [])]


def resume(
    folder: RunFolder,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Go on to this step, further than the run was to go.")
    ] = None,
    base: MovedBase = None,
) -> None:
    """Go on with a run that was stopped or killed, from its newest checkpoint."""
    with Run.resume(folder, steps, base) as run:
        note(f"going on after step {run.step} of {run.config.steps}")
        _play(run)


def fork(
    folder: RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the new run; by default RUN-fork-1, -2, ...")
    ] = None,
    settings: Settings = None,
) -> None:
    """Start a new run from the newest checkpoint of another, with other settings.

    It has the members, ratings, archive and records of the first one up to there. Anything may
    change but what these have to fit: base, dtype, lora, population, the size of the hall of fame.
    """
    with Run.fork(folder, out, settings or []) as run:
        note(f"{run.folder} goes on after step {run.step} of {folder}")
        _play(run)


def _start(arms: Sequence[Arm], name: str, out: Path | None, dry_run: bool) -> None:
    """Create a run and play it. Its folder is made last, when every setting has been checked."""
    config = arms[0][1]
    check_trackers(config.trackers)
    check_suite(config)
    if dry_run:
        check_arms(arms)
        show_plan(arms)
        return
    with Run.create(arms, out, name) as run:
        _play(run)


def _play(run: Run) -> None:
    warn_if_unsafe(run.config.sandbox.unsafe)
    started, first, folder = time.monotonic(), run.step, run.folder
    trackers = track(run)
    with _stop_requests() as stop_requests, trackers, StepProgress(run) as progress:
        try:
            measure_if_due(run)
            for step in run:
                _show_step(run, progress, trackers, step)
                measure_if_due(run)
                if stop_requests:
                    break
        except FloatingPointError as error:
            why = (
                f"stopped in step {run.step + 1}: {error}. The run is whole up to step {run.step}; "
                "lower update.learning_rate in a new one."
            )
            run.record_end(why)
            note(why, "bold red")
            raise typer.Exit(STOPPED_EARLY) from error
        except RedQueenError as error:
            if "redqueen resume" in str(error):
                raise
            way_on = f"The run is whole up to step {run.step}. Go on with: redqueen resume {folder}"
            raise type(error)(f"{error}\n{way_on}") from error
        except KeyboardInterrupt as interrupt:
            note(
                f"ended in step {run.step + 1}, of which nothing is kept. "
                f"Go on with: redqueen resume {folder}"
            )
            number = stop_requests[-1] if stop_requests else signal.SIGINT
            raise typer.Exit(SIGNALLED + number) from interrupt
    if not run.stop_reason and run.step < run.config.steps:
        run.save_last()  # what ends the command is an exception, after which nothing is saved
        note(
            f"stopped after step {run.step} of {run.config.steps}. "
            f"Go on with: redqueen resume {folder}"
        )
        raise typer.Exit(SIGNALLED + stop_requests[0])
    early = bool(run.stop_reason) and not all(world.has_enough_tokens for world in run.worlds)
    if run.stop_reason:
        note(run.stop_reason, "bold red" if early else "")
    try:
        _finish(run, run.step - first, time.monotonic() - started)
    except KeyboardInterrupt as interrupt:
        note(
            "every step is played and kept, but what comes after them is not done. "
            f"Do it with: redqueen resume {folder}"
        )
        raise typer.Exit(SIGNALLED + (interrupt.args or (signal.SIGINT,))[0]) from interrupt
    if early:
        raise typer.Exit(STOPPED_EARLY)


def _finish(run: Run, steps: int, steps_s: float) -> None:
    """Measure it and show what came of it; a resume of a run that is over does this again."""
    show_final(run, measure(run), steps, steps_s)
    if len(run.worlds) == 1:  # what happened in each world of a study is too much for a terminal
        write_report([run.folder])
    show_next(run)


def _show_step(run: Run, progress: StepProgress, trackers: Trackers, step: StepResult) -> None:
    progress.step(step.worlds, step.seconds)
    study = len(run.worlds) > 1
    for state in step.worlds:
        world = state.world
        metrics = {**state.metrics, "time/step_s": step.seconds}
        trackers.step(step.number, metrics, world.arm if study else "")
        if trackers:
            trackers.samples(step.number, sample_rows(state))
        if world.stopped and study:
            note(f"{world.arm}, seed {world.seed}: {world.stopped}")


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """The signals that asked for a stop. The first Ctrl-C or SIGTERM asks for one after the step,
    the second ends the run at once; steps in the ledger stay either way."""
    requests: list[int] = []
    notices: list[Thread] = []

    def handle(number: int, frame: object) -> None:
        requests.append(number)
        if notices:
            raise KeyboardInterrupt
        # a signal may arrive while a line is being printed: another thread can wait for its end
        text = "ending after this step; once more ends at once, and loses no step that is whole"
        notices.append(Thread(target=note, args=(text,)))
        notices[0].start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for notice in notices:
            notice.join()
