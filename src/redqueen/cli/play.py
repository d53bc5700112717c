"""`redqueen play`: a person answers problems of a run, and then sees what the students made of
them."""

import getpass
import os
import sys
import threading
import time
from collections.abc import Sequence
from random import Random
from types import TracebackType
from typing import Annotated, Self

import typer
from rich.console import Console
from rich.text import Text

from redqueen.cli.console import VisibleConsole, note, warn_if_unsafe
from redqueen.cli.options import RunFolder, SandboxMode
from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import ConfigError, DataError, RedQueenError, unknown
from redqueen.evaluate.play import (
    StudentAttempt,
    ask,
    choose_problem,
    count_correct,
    find_problem,
    find_world,
    grade,
    read_attempts,
    record_answer,
)
from redqueen.ledger.people import clean_name
from redqueen.ledger.run_reader import RunReader, open_run
from redqueen.records import Attempt, Problem
from redqueen.report.escape import escape_controls
from redqueen.sandbox import Sandbox
from redqueen.sandbox.backends import open_sandbox

_STYLES = {"correct": "bold green", "wrong": "bold red", "malformed": "bold yellow"}
_MAX_CHARS = 3000


def play(
    folder: RunFolder,
    problem: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The problem whose key starts with this; else any."),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only problems of this kind.")] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Answer at once, for scripts; `-` reads it from standard input."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Your name, recorded with your answers; else the user's.")
    ] = None,
    world: Annotated[int, typer.Option(help="The world of a study.")] = 0,
    sandbox: SandboxMode = None,
) -> None:
    """Play against the students of a run: you get one of its problems and the clock runs; your
    answer is graded as theirs were, and then you see their attempts. Answers are recorded, but
    nobody is trained on them.
    """
    author = _name(name)
    if answer is not None and problem is None:
        raise ConfigError("--answer needs --problem KEY: which one is it the answer to?")
    console = VisibleConsole(soft_wrap=True)
    with open_run(folder) as run:
        own = find_world(run, world)
        if kind is not None and kind not in own.config.tasks.kinds:
            raise ConfigError("--kind: " + unknown("task kind", kind, own.config.tasks.kinds))
        # not the run's: whoever made it does not choose what its programs run behind, nor where
        settings = SandboxConfig(unsafe=sandbox == "unsafe")
        warn_if_unsafe(settings.unsafe)
        with open_sandbox(settings) as box:
            while True:
                chosen = (
                    find_problem(run, world, problem)
                    if problem is not None
                    else choose_problem(run, world, author, kind, Random())
                )
                if not _play_round(console, run, world, chosen, author, answer, box):
                    return
                if problem is not None or answer is not None or not sys.stdin.isatty():
                    return
                if console.input("\nAnother one? [Y/n] ").strip().lower() in ("n", "no", "q"):
                    return


def _name(given: str | None) -> str:
    try:
        return clean_name(given if given is not None else getpass.getuser())
    except (ValueError, OSError, KeyError) as error:
        raise ConfigError(f"--name: {error}") from error


def _play_round(
    console: Console,
    run: RunReader,
    world: int,
    problem: Problem,
    author: str,
    answer: str | None,
    box: Sandbox,
) -> bool:
    """Whether there was an answer."""
    asked = ask(problem)
    if answer is None:
        console.print(Text(f"{problem.kind} {problem.key[:8]}", "bold"))
        console.print(asked.instruction, style="dim")
        _show_blocks(console, asked.given)
        text, seconds = _read_answer(console, asked.wanted)
    else:
        text, seconds = (_read_input() if answer == "-" else answer), 0.0
    if not text.strip():
        note("no answer: nothing is recorded")
        return False
    attempt = grade(problem, text, box, find_world(run, world))
    _show_verdict(console, attempt, seconds if answer is None else None)
    _show_attempts(console, read_attempts(run, world, problem))
    try:
        if not record_answer(run.folder, world, author, attempt, seconds):
            note("recorded beside the ledger; the run's next step takes it up")
    except RedQueenError as error:
        note(f"your answer is not recorded: {error}", "yellow")
    return True


def _read_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise DataError(f"standard input is no text in UTF-8: {error}") from error


def _read_answer(console: Console, wanted: Sequence[str]) -> tuple[str, float]:
    """Lines up to an empty one, and the seconds that they took."""
    what = wanted[0] if len(wanted) == 1 else ", ".join(f">>{label}" for label in wanted)
    console.print(f"\nYour answer ({what}); an empty line ends it. The clock runs.", style="bold")
    lines: list[str] = []
    with _Clock() as clock:
        for line in iter(sys.stdin.readline, ""):
            if not line.strip() and lines:
                break
            lines += [line.rstrip("\n")] if line.strip() else []
    return "\n".join(lines), clock.seconds


class _Clock:
    """Counts seconds, and shows them in the title of the terminal: wherever else they stood, they
    would be in the way of what is being typed."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._ended = threading.Event()
        self.seconds = 0.0

    def __enter__(self) -> Self:
        if sys.stdout.isatty():
            os.write(1, b"\x1b[22;0t")  # keep the title
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def _tick(self) -> None:
        while not self._ended.wait(1):
            os.write(1, f"\x1b]0;{time.monotonic() - self._started:.0f} s\x07".encode())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = time.monotonic() - self._started
        self._ended.set()
        if sys.stdout.isatty():
            os.write(1, b"\x1b[23;0t")


def _show_verdict(console: Console, attempt: Attempt, seconds: float | None) -> None:
    time_taken = "" if seconds is None else f" after {seconds:.0f} s"
    detail = f": {escape_controls(attempt.detail)}" if attempt.detail else ""
    console.print()
    console.print(Text(f"{attempt.verdict}{time_taken}{detail}", _STYLES.get(attempt.verdict, "")))
    console.print("gold: " + _cut(" · ".join(attempt.problem.gold)))


def _show_attempts(console: Console, attempts: Sequence[StudentAttempt]) -> None:
    counts = count_correct(attempts)
    who = ", ".join(f"{name} {correct} of {total}" for name, (correct, total) in counts.items())
    correct = sum(one.verdict == "correct" for one in attempts)
    console.print(
        f"\nstudents: {correct} of {len(attempts)} attempts are correct"
        + (f" ({who})" if who else "")
    )
    for place, attempt in enumerate(attempts, 1):
        detail = f" ({escape_controls(_cut(attempt.detail))})" if attempt.detail else ""
        title = f"\n--- {place}. {escape_controls(attempt.student)}, step {attempt.step}: "
        console.print(
            Text(title).append(attempt.verdict, _STYLES.get(attempt.verdict, "")).append(detail)
        )
        console.print(_cut(attempt.text.strip()))


def _show_blocks(console: Console, blocks: Sequence[tuple[str, str]]) -> None:
    for label, text in blocks:
        console.print(Text(f"\n{escape_controls(label)}:", "bold"))
        console.print(_cut(text.rstrip(), 4 * _MAX_CHARS))


def _cut(text: str, most: int = _MAX_CHARS) -> str:
    return text if len(text) <= most else f"{text[:most]}\n... ({len(text) - most:,} more)"
