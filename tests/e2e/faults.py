"""Every command on a disk that is full and on one that is read-only; a script, since it mounts.

    unshare --user --map-root-user --mount python tests/e2e/faults.py FOLDER

Prints what each command said, and whether a run whose disk was full in the middle went on as one
whose disk was not.
"""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import tests.e2e.warm  # noqa: F401  (so that no command waits for torch)
from redqueen.cli.app import main
from redqueen.ledger.store import digest
from tests.e2e.processes import tiny

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("population.teachers=1", "population.students=1", "evolve.every=0", "lora.rank=2")
EVAL = ("--suite", "heldout-quick", "--limit", "1", "--max-tokens", "2", "--device", "cpu")


def commands(place: Path) -> dict[str, list[str | Path]]:
    """Every command that writes, and those that only read a run."""
    run = place / "run"
    return {
        "run": [*tiny(place / "new", "steps=1", *SMALL)],
        "resume": ["resume", run, "--steps", "3"],
        "report": ["report", run],
        "compare": ["compare", f"a={run}", f"b={run}", "--out", place / "compared"],
        "eval": ["eval", run, *EVAL],
        "eval --out": ["eval", "pawn", *EVAL, "--out", place / "eval.json"],
        "crossplay": ["crossplay", run, "--each", "1"],
        "export --soup": ["export", run, "--soup", "--out", place / "soup"],
        "export --merged": ["export", run, "--soup", "--merged", "--out", place / "merged"],
        "export --problems": ["export", run, "--problems", "--all", "--out", place / "problems"],
        "verify": ["verify", EXAMPLES / "proposals.jsonl", "--out", place / "verified"],
        "sandbox run": ["sandbox", "run", EXAMPLES / "programs.jsonl", "--out", place / "outcomes"],
        "pawn suites": ["pawn", "suites", "--each", "1", "--out", place / "suites"],
        "runs": ["runs", place],
        "digest": ["digest", run],
    }


def call(log: Path, *words: str | Path) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    pid = os.fork()
    if pid == 0:
        run_command(log, *words)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), log.read_text()


def run_command(log: Path, *words: str | Path) -> NoReturn:
    code: object = 1
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = ["redqueen", *map(str, words)]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001  (as the interpreter would)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def fill_disk(place: Path, free: int = 0) -> Path:
    disk, ballast = os.statvfs(place), place / "ballast"
    with ballast.open("wb") as file:
        file.write(bytes(max(0, disk.f_bavail * disk.f_frsize - free)))
    return ballast


def go_on_after_a_full_disk(place: Path, log: Path) -> dict[str, object]:
    """A run to step 3 that finds no room for its checkpoints, and then room."""
    ballast = fill_disk(place, free=400_000)
    failed, said = call(log, "resume", place / "run", "--steps", "3")
    ballast.unlink()
    went_on, _ = call(log, "resume", place / "run")
    call(log, *tiny(place / "straight", "steps=2", "ledger.snapshot_every=1", *SMALL))
    call(log, "resume", place / "straight", "--steps", "3")
    equal = digest(place / "run") == digest(place / "straight")
    return {"failed": failed, "said": said, "went_on": went_on, "equal": equal}


def play(place: Path) -> dict[str, object]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", place], check=True)
    log = place.with_name("log")
    made, said = call(log, *tiny(place / "run", "steps=2", "ledger.snapshot_every=1", *SMALL))
    assert made == 0, said
    before, results = digest(place / "run"), dict[str, object]()
    for fault in ("full", "read-only"):
        ballast = fill_disk(place)
        if fault == "read-only":
            ballast.unlink()
            subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        results[fault] = {name: call(log, *words) for name, words in commands(place).items()}
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)
        ballast.unlink(missing_ok=True)
        assert digest(place / "run") == before
        results[f"left, {fault}"] = sorted(path.name for path in place.iterdir())
    return {**results, "a run": go_on_after_a_full_disk(place, log)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(play(Path(sys.argv[1]))) + "\n")
