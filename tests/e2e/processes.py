"""`redqueen`, and scripts, in processes of their own that are forked from one that has imported
everything: they can be killed, and need not wait for torch."""

import multiprocessing
import os
import re
import runpy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TINY = (
    "steps=3", "population.teachers=2", "population.students=2", "tasks.kinds=['code_o']", "archive.seed_count=8", "archive.seed_tiers=[2, 3]",
    "propose.samples=3", "propose.max_tokens=48", "propose.max_prompt_chars=600", "propose.temperature=1.2",
    "solve.attempts=2", "solve.max_tokens=32", "solve.temperature=2", "evolve.every=1", "evolve.share=0.5", "evaluate.suite=", "sandbox.workers=1",
)  # fmt: skip
"""A few seconds. Hot enough that some proposals are no problems and some answers wrong: members
have something to learn from."""

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.e2e.processes", "tests.e2e.warm"])


@dataclass(slots=True)
class Command:
    """A command that runs, or has run."""

    process: Any
    folder: Path

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def wait(self, code: int = 0) -> "Command":
        """Until it ends, with this exit code."""
        self.process.join(120)
        assert self.process.exitcode == code, (
            f"exit code {self.process.exitcode}\n{self.out}\n{self.err}"
        )
        assert "Traceback" not in self.err
        return self

    def until(self, pattern: str) -> "Command":
        """Until it has said this."""
        return self._until(lambda: re.search(pattern, self.err) is not None)

    def _until(self, there: Callable[[], bool]) -> "Command":
        end = time.monotonic() + 120
        while not there():
            assert self.process.is_alive() and time.monotonic() < end, (
                f"it never came\n{self.out}\n{self.err}"
            )
            time.sleep(0.01)
        return self

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)


def start(folder: Path, *words: str | Path, **environment: str) -> Command:
    """The command, with its output in a new folder."""
    return _fork(folder, _main, [str(word) for word in words], environment)


def run_script(script: Path, folder: Path) -> Command:
    """A script to its end, in this folder; it may import what is beside it, and what is there."""
    return _fork(folder / f"log-{script.stem}", _script, str(script), str(folder)).wait()


def run_code(code: str, folder: Path, name: str = "pasted") -> Command:
    """The same for code that is no file yet."""
    return start_code(code, folder, name).wait()


def start_code(code: str, folder: Path, name: str = "pasted") -> Command:
    """The same, without waiting for its end."""
    script = folder / f"{name}.py"
    script.write_text(code)
    return _fork(folder / f"log-{name}", _script, str(script), str(folder))


def _fork(folder: Path, target: Callable[..., None], *arguments: Any) -> Command:
    folder.mkdir(parents=True)
    process = context.Process(target=target, args=(str(folder), *arguments))
    process.start()
    command = Command(process, folder)
    return command._until((folder / "err").exists)


def tiny(out: Path, *settings: str) -> list[str]:
    """The words of a tiny run."""
    return [
        "run",
        "pawn-cpu",
        "--out",
        str(out),
        *(word for setting in (*TINY, *settings) for word in ("--set", setting)),
    ]


def _main(folder: str, words: list[str], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    _redirect(folder)
    from redqueen.cli.app import main

    sys.argv = ["redqueen", *words]
    main()


def _script(log: str, script: str, folder: str) -> None:
    _redirect(log)
    os.chdir(folder)
    sys.argv = [script]
    sys.path[:0] = [str(Path(script).parent), folder]
    runpy.run_path(script, run_name="__main__")


def _redirect(folder: str) -> None:
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
