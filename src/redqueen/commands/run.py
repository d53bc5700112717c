"""`redqueen run`, `redqueen study` and `redqueen resume`: the arms race, with its progress and its final table."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from redqueen.assembly import Arm, assemble, reassemble
from redqueen.commands.final import show_final
from redqueen.commands.progress import StepProgress
from redqueen.commands.report import run as write_report
from redqueen.errors import ConfigError
from redqueen.ledger.lock import RunLock
from redqueen.ledger.store import reader, refuse_what_is_there
from redqueen.report.trackers import Trackers, check_trackers, open_trackers
from redqueen.run import Degenerate, Run, run_folder
from redqueen.scribe import ModelScribe
from redqueen.terminal import note, notes
from redqueen.turn import Turn

if TYPE_CHECKING:
    from redqueen.evaluate.members import Verdicts

DEGENERATE, INTERRUPTED = 3, 130
"""What the process says when a run ended before its steps were played, and when it was ended within a step."""


def start(arms: Sequence[Arm], name: str, out: Path | None, root: Path) -> None:
    """A new run, to its end. Its folder is made when all that can be wrong has been looked at."""
    if out is not None:
        refuse_what_is_there(out)
    check_trackers(arms[0][1].trackers)
    with ExitStack() as stack:
        run = assemble(stack, arms, lambda: out or run_folder(root, name))
        run.begin()
        _go(run, run.ledger.folder)


def resume(folder: Path, steps: int | None) -> None:
    """Go on with a run, from its newest checkpoint; with `steps`, further than it was to go."""
    if not (folder / "run.sqlite").exists():
        raise ConfigError(f"there is no run in {folder}: `redqueen runs` lists those there are")
    with ExitStack() as stack:
        stack.enter_context(RunLock(folder))
        run = reassemble(stack, folder, steps)
        run.restore()
        note(f"going on after step {run.step} of {run.config.steps}")
        _go(run, folder)


def _go(run: Run, folder: Path) -> None:
    ended = ""
    started = time.monotonic()
    trackers = open_trackers(run.config.trackers, folder, run.config.model_dump(mode="json"), note)
    with _signals() as asked_to_stop, closing(trackers), StepProgress(run) as progress:
        try:
            _measure(run)
            run.play(lambda turns, seconds: _told(run, progress, trackers, turns, seconds), asked_to_stop)
        except Degenerate as degenerate:
            ended = str(degenerate)
        except FloatingPointError as error:
            _end(run, f"stopped in step {run.step + 1}: {error}. The run is whole up to step {run.step}; lower update.learning_rate in a new one.")
            raise SystemExit(DEGENERATE) from error
        except KeyboardInterrupt as interrupt:
            note(f"ended in step {run.step + 1}, of which nothing is kept. Go on with: redqueen resume {folder}")
            raise SystemExit(INTERRUPTED) from interrupt
    if not ended and run.step < run.config.steps:
        note(f"stopped after step {run.step} of {run.config.steps}. Go on with: redqueen resume {folder}")
        return
    _end(run, ended)
    steps_s = time.monotonic() - started
    verdicts = _evaluate(run, with_base=True) if run.config.evaluate.suite else {}
    show_final(run, folder, verdicts, steps_s)
    if len(run.worlds) == 1:  # what happened in each world of a study is too much for a terminal
        write_report([folder], None, False)
    if ended:
        raise SystemExit(DEGENERATE)


def _end(run: Run, why: str) -> None:
    if why:
        notes.print(why, style="bold red", markup=False, soft_wrap=True)
    run.ledger.add("run", [{"name": "ended", "value": why or "all steps played"}])


def _told(run: Run, progress: StepProgress, trackers: Trackers, turns: list[Turn], seconds: float) -> None:
    progress.step(turns, seconds)
    for turn in turns:
        trackers.step(turn.step, {**turn.metrics, "time/step_s": seconds}, turn.world.arm if len(turns) > 1 else "")
    _measure(run)


def _measure(run: Run) -> None:
    """The students on the suite, where it is time for it. It may have been time when the run was killed: a resume makes up for it."""
    every, step = run.config.evaluate.every, run.step
    if not every or not run.config.evaluate.suite or step % every or not 0 < step < run.config.steps or _is_measured(run):
        return
    for number, verdicts in _evaluate(run, with_base=False).items():
        scores = ", ".join(f"{name} {100 * sum(right) / len(right):.1f} %" for name, right in verdicts.items())
        note(f"  held-out{f', world {number}' if len(run.worlds) > 1 else ''}: {scores}")


def _is_measured(run: Run) -> bool:
    with closing(reader(run.ledger.folder)) as connection:
        query = "SELECT 1 FROM evals WHERE step = ? AND suite = ?"
        return connection.execute(query, (run.step, run.config.evaluate.suite)).fetchone() is not None


def _evaluate(run: Run, with_base: bool) -> "dict[int, Verdicts]":
    """Students, and the base, by world. A side exit: it goes into the ledger and onto the screen, and no reward can read it."""
    from redqueen.engine.torch_engine import TorchEngine
    from redqueen.evaluate.members import Asked, answer, eval_rows
    from redqueen.pawn.heldout import load_suite

    suite, scribe = run.config.evaluate.suite, run.tools.scribe
    items = load_suite(suite)
    assert isinstance(scribe, ModelScribe) and isinstance(run.engine, TorchEngine)
    asked: list[Asked] = [(world.number, one.id, world.slot(one)) for world in run.worlds for one in world.members if one.role != "teacher"]
    if with_base:
        note(f"measuring the base and {len(asked)} students on {suite}, {len(items)} problems each")
    found: dict[int, Verdicts] = {world.number: {} for world in run.worlds}
    if with_base:
        bare = answer(ModelScribe(TorchEngine(scribe.base, 0, run.config.engine), scribe.base), run.tools.pack, [0], items, run.tools.sandbox)[0]
        for verdicts in found.values():
            verdicts["base"] = bare
    groups = [asked] if run.mixes_worlds else [[one for one in asked if one[0] == world.number] for world in run.worlds]
    for group in groups:
        answers = answer(scribe, run.tools.pack, [slot for _, _, slot in group], items, run.tools.sandbox)
        for (world, member, _), right in zip(group, answers, strict=True):
            found[world][member] = right
    run.ledger.add("evals", [row for world, verdicts in found.items() for row in eval_rows(world, run.step, suite, verdicts, items)])
    return found


@contextmanager
def _signals() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C or SIGTERM asks for an end after the step; the second ends at once. What is committed stays either way."""
    asked: list[Thread] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(Thread(target=note, args=("ending after this step; once more ends at once, and loses no step that is whole",)))
        asked[0].start()  # this may be in the middle of another line being written: a thread waits for its end

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for thread in asked:
            thread.join()
