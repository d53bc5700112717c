#!/usr/bin/env python3
"""Kill a run of Pawn with SIGKILL at random moments, resume it each time, and compare its digest
with that of an undisturbed run.

    .venv/bin/python scripts/kill_test.py                  20 kills, about ten minutes on two cores
    .venv/bin/python scripts/kill_test.py --kills 100 --steps 30 --seed 7

A quarter of the kills hit the set-up; the others are uniform over the duration of three steps, and
hit every stage, the ledger's transaction and the checkpoint. If a run ends before it has had its
kills, another one starts with the same seed.
"""

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = (
    "population.teachers=2", "population.students=2", "tasks.kinds=['code_o', 'code_f']",
    "archive.seed_count=8", "archive.seed_tiers=[2, 3]",
    "propose.prompts=1", "propose.samples=3", "propose.max_tokens=96",
    "propose.max_prompt_chars=600", "propose.temperature=1.2",
    "solve.attempts=3", "solve.max_tokens=64", "solve.temperature=1.5",
    "evolve.every=2", "evolve.share=0.5",
    "stop.steps_without_problem=1000", "stop.steps_without_update=1000",
    "evaluate.suite=", "sandbox.workers=1",
)  # fmt: skip


SET_UP_ENDS = {"run": "parameters each", "resume": "going on after step"}
"""What a command writes when its set-up is over, or nearly."""
SET_UP_S = 6.0


def main() -> int:
    options = _parse_options()
    folder = Path(tempfile.mkdtemp(prefix="redqueen-kills-", dir=options.folder))
    settings = [*SETTINGS, f"steps={options.steps}", f"seed={options.seed}", *options.set]
    started = time.monotonic()
    _call(_run_command(folder / "undisturbed", settings), folder / "undisturbed.log")
    total_s = time.monotonic() - started
    expected, step_s = _digest(folder / "undisturbed"), _step_s(folder / "undisturbed")
    _print(
        f"without kills: {options.steps} steps in {total_s:.0f} s, {step_s:.1f} s each; "
        f"digest {expected[:16]}"
    )
    rng, kills, number, different = random.Random(options.seed), 0, 1, 0
    while kills < options.kills:
        run, kills_before = folder / f"killed-{number}", kills
        while not _has_ended(run):
            if kills == options.kills:
                _call(_next_command(run, settings), folder / "last.log")
                break
            step_s = _step_s(run) or step_s  # other work on the machine may slow it down
            kills += _start_and_kill(_next_command(run, settings), rng, step_s, run, kills + 1)
        digest = _digest(run)
        different += digest != expected
        _print(
            f"run {number}: {kills - kills_before} kills, {_steps(run)} steps, "
            f"digest {digest[:16]}: {'equal' if digest == expected else 'DIFFERENT'}"
        )
        number += 1
    _print(
        f"{kills} kills over {number - 1} runs of {options.steps} steps: {different} of the "
        "digests differ from the run without kills"
    )
    if different:
        _print(f"the runs are in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if different else 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Kill a run at random moments, resume it each time, compare digests."
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=8, help="of each run")
    parser.add_argument("--seed", type=int, default=0, help="of the run and of the moments")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the runs; may be repeated",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where to put the runs; by default the folder for temporary files",
    )
    return parser.parse_args()


def _run_command(run: Path, settings: list[str]) -> list[str]:
    options = [word for setting in settings for word in ("--set", setting)]
    return ["run", "pawn-cpu", "--out", str(run), *options]


def _next_command(run: Path, settings: list[str]) -> list[str]:
    return ["resume", str(run)] if (run / "run.sqlite").exists() else _run_command(run, settings)


def _start(words: list[str], log: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "redqueen", *words]
    with log.open("wb") as file:
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True
        )


def _call(words: list[str], log: Path) -> None:
    if _start(words, log).wait():
        sys.exit(f"redqueen {words[0]} failed:\n{log.read_text()}")


def _start_and_kill(
    words: list[str], rng: random.Random, step_s: float, run: Path, number: int
) -> bool:
    """Start a command and kill it; False if it ended first."""
    log = run.with_suffix(".log")
    process, started = _start(words, log), time.monotonic()
    if rng.random() < 0.75:
        while process.poll() is None and SET_UP_ENDS[words[0]] not in log.read_text():
            time.sleep(0.01)
        where, end = "in its steps", time.monotonic() + rng.uniform(0, 3 * step_s)
    else:
        where, end = "in its set-up", started + rng.uniform(0, SET_UP_S)
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        half = ", a checkpoint was incomplete" if any(run.glob("checkpoints/.*")) else ""
        _print(
            f"kill {number:3} after {time.monotonic() - started:5.1f} s of {words[0]:6} "
            f"{where:13}: step {_steps(run)} is complete{half}"
        )
        return True
    if process.returncode:
        sys.exit(f"redqueen {words[0]} failed:\n{log.read_text()}")
    return False


def _value(run: Path, query: str) -> object:
    """The first value of a query; None if there is no ledger yet."""
    if not (run / "run.sqlite").exists():
        return None
    connection = sqlite3.connect(f"{(run / 'run.sqlite').as_uri()}?mode=ro", uri=True)
    try:
        row = connection.execute(query).fetchone()
    finally:
        connection.close()
    return row[0] if row else None


def _steps(run: Path) -> object:
    return _value(run, "SELECT max(step) FROM marks")


def _has_ended(run: Path) -> bool:
    return _value(run, "SELECT 1 FROM run WHERE name = 'ended'") is not None


def _step_s(run: Path) -> float:
    """Mean seconds of the last steps."""
    seconds = _value(
        run,
        "SELECT sum(seconds) / count(DISTINCT step) FROM timings "
        "WHERE step > (SELECT max(step) - 3 FROM timings)",
    )
    return float(str(seconds or 0))


def _digest(run: Path) -> str:
    return subprocess.run(
        [sys.executable, "-m", "redqueen", "digest", str(run)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
