"""A small run that saves as the loop does, killed at chosen and at random moments; a script, since
what dies must not be the tests.

    python tests/contract/kills.py points FOLDER 1         a kill at every point of a step and of the making of a run (3: at every third)
    python tests/contract/kills.py random FOLDER 1000      as many kills at random moments of one run
    python tests/contract/kills.py full FOLDER             a disk that is full at each write (FOLDER is on a small disk of its own)

A kill ends a process, not the machine: what only the disk's cache holds survives it.
"""

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from redqueen.errors import StorageError
from redqueen.ledger.checkpoint import Checkpoint, Checkpoints
from redqueen.ledger.lock import RunLock
from redqueen.ledger.manifest import read_state
from redqueen.ledger.store import FILE, Ledger, digest, last_step, open_to_read

NUMBERS = 4000
PROPOSALS = 3
Hook = Callable[[], None]


def rows(step: int) -> dict[str, list[dict[str, Any]]]:
    """The records of a step: the same whenever it is played."""
    metrics = [
        {"world": 0, "name": f"solve/metric{number}", "value": step / (number + 1)}
        for number in range(10)
    ]
    proposals = [
        {
            "world": 0, "proposal": number, "pairing": 0, "teacher": "T0", "version": step, "kind": "code_o", "prompt": 0, "shown": ["a", "b"],
            "text": f"problem {number} of step {step} " * 40, "tokens": 80, "logprob": -0.1 * step, "finish_reason": "stop", "detail": "", "reward": 0.5, "advantage": 0.0,
        }
        for number in range(PROPOSALS)
    ]  # fmt: skip
    return {
        "metrics": metrics,
        "proposals": proposals,
        "timings": [{"stage": "solve", "seconds": time.monotonic(), "waited_s": 0.0}],
    }


def writer(step: int, hook: Hook) -> Callable[[Path], list[Path]]:
    """Writes three files of one step: tensors, bytes in a folder, in two halves, and tensors
    again."""

    def halves(path: Path) -> None:
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            file.write(step.to_bytes(4, "little") * (NUMBERS // 2))
            file.flush()
            hook()
            file.write(step.to_bytes(4, "little") * (NUMBERS // 2))

    def tensors(path: Path) -> None:
        save_file({"numbers": np.full(NUMBERS, step, dtype=np.int32)}, path)
        hook()

    def write(folder: Path) -> list[Path]:
        tensors(folder / "model.safetensors")
        halves(folder / "adapters/T0/numbers.bin")
        tensors(folder / "optimizer.safetensors")
        return [
            Path(name)
            for name in ("model.safetensors", "adapters/T0/numbers.bin", "optimizer.safetensors")
        ]

    return write


def steps_in(checkpoint: Checkpoint) -> set[int]:
    """The steps that the parts of a checkpoint belong to."""
    found = {checkpoint.step, checkpoint.state["step"]}
    for name in ("model.safetensors", "optimizer.safetensors"):
        found |= set(load_file(checkpoint.folder / name)["numbers"].tolist())
    found |= set(
        np.fromfile(checkpoint.folder / "adapters/T0/numbers.bin", dtype=np.int32).tolist()
    )
    return found


def work(
    folder: Path,
    until: int,
    say: Callable[[str], None] = lambda text: None,
    hook: Hook = lambda: None,
) -> None:
    """Make the run or go on with it, up to a step: a record in the ledger, then a checkpoint, and
    each is acknowledged."""
    with RunLock(folder):
        if not (folder / FILE).exists():
            Ledger.create(
                folder,
                {"config": "steps = 4\n", "base": "pawn"},
                [{"world": 0, "arm": "run", "seed": 1, "config": "{}"}],
            ).close()
        with Ledger.open(folder) as ledger:
            checkpoints = Checkpoints(folder)
            checkpoints.sweep()
            found = checkpoints.newest(at_most=ledger.last_step())
            start = found.step if found else -1
            ledger.truncate(start)
            for step in range(start + 1, until + 1):
                ledger.write(step, rows(step))
                say(f"L{step}")
                checkpoints.save(step, writer(step, hook), {"step": step})
                say(f"C{step}")


def inspect(folder: Path, ledger_acknowledged: int, checkpoint_acknowledged: int) -> int:
    """What must hold after a kill at any moment. The last step of the ledger is returned; -1 if
    there is no run yet."""
    with RunLock(folder):  # the dead hold nothing
        pass
    if not (folder / FILE).exists():
        assert ledger_acknowledged == checkpoint_acknowledged == -1
        return -1
    with contextlib.closing(open_to_read(folder)) as connection:
        last = last_step(connection)
        assert last >= ledger_acknowledged, (
            f"step {ledger_acknowledged} was acknowledged, the ledger ends with {last}"
        )
        for table, count in (("metrics", 10), ("proposals", PROPOSALS), ("timings", 1)):
            found = connection.execute(
                f"SELECT step, count(*) FROM {table} GROUP BY step ORDER BY step"
            ).fetchall()
            assert [tuple(row) for row in found] == [(step, count) for step in range(last + 1)], (
                table
            )
    for named in folder.glob("checkpoints/[0-9]*"):
        read_state(named, int(named.name))  # what has its name is whole
    newest = Checkpoints(folder).newest(at_most=last)
    step = newest.step if newest else -1
    assert step >= checkpoint_acknowledged, (
        f"checkpoint {checkpoint_acknowledged} was acknowledged, the newest is {step}"
    )
    assert newest is None or steps_in(newest) == {step}
    return last


def in_child(
    job: Callable[[Callable[[str], None]], None], kill_after_s: float | None = None
) -> tuple[int, int, bool]:
    """Run a job in a forked process, killed after a while; what it acknowledged of ledger and
    checkpoints, and whether it was killed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            job(lambda text: void(os.write(write, f"{text}\n".encode())))
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    os.close(write)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        lines = pipe.read().split()
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the writer failed"
    acknowledged = {
        kind: max((int(line[1:]) for line in lines if line[0] == kind), default=-1) for kind in "LC"
    }
    return acknowledged["L"], acknowledged["C"], os.WIFSIGNALED(status)


def void(value: object) -> None:
    pass


def die_at(point: int) -> tuple[Hook, list[int]]:
    """Hook the calls that change the disk; the process kills itself at the given one. Before and
    after a call are two points."""
    seen = [0]

    def hook() -> None:
        seen[0] += 1
        if seen[0] == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(
        call: Callable[..., Any], wanted: Callable[..., bool] = lambda *args, **named: True
    ) -> Callable[..., Any]:
        def hooked(*args: Any, **named: Any) -> Any:
            if not wanted(*args, **named):
                return call(*args, **named)
            hook()
            result = call(*args, **named)
            hook()
            return result

        return hooked

    connect = sqlite3.connect

    def hooked_connect(*args: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **named)
        connection.set_trace_callback(lambda statement: hook())
        connection.set_progress_handler(hook, 150)
        return connection

    sqlite3.connect = hooked_connect  # type: ignore[assignment]
    for name in ("fsync", "rename", "mkdir", "unlink", "rmdir", "ftruncate", "pwrite"):
        setattr(os, name, around(getattr(os, name)))
    io.open = around(io.open, lambda file, mode="r", *rest, **named: mode[0] in "wax")
    return hook, seen


def straight(folder: Path, until: int) -> str:
    """The digest of a run that nobody disturbs."""
    with Ledger.create(
        folder,
        {"config": "steps = 4\n", "base": "pawn"},
        [{"world": 0, "arm": "run", "seed": 1, "config": "{}"}],
    ) as ledger:
        for step in range(until + 1):
            ledger.write(step, rows(step))
    return digest(folder)


def kill_at_points(folder: Path, stride: int) -> dict[str, int]:
    """A kill at each point of making a run, and of going on with one that has remains to sweep and
    a checkpoint to delete."""
    going = folder / "start"
    in_child(lambda say: work(going, 2, say))
    shutil.copytree(going / "checkpoints/000001", going / "checkpoints/.deleted-000000")
    shutil.copytree(
        going / "checkpoints/000001/adapters", going / "checkpoints/.staging-000003/adapters"
    )
    done = {}
    for name, start, until, floor in (("new", None, -1, -1), ("going", going, 3, 2)):
        expected = straight(folder / name / "straight", until + 1)
        point, killed, kills = 1, True, -1
        while killed:
            run = folder / "run"
            if start:
                shutil.copytree(start, run)

            def job(
                say: Callable[[str], None], run: Path = run, point: int = point, until: int = until
            ) -> None:
                hook, _ = die_at(point)
                work(run, until, say, hook)

            ledger, checkpoint, killed = in_child(job)
            inspect(run, max(ledger, floor), max(checkpoint, floor))
            in_child(lambda say, run=run, until=until: work(run, until + 1, say))  # type: ignore[misc]
            inspect(run, until + 1, until + 1)
            assert digest(run) == expected
            shutil.rmtree(run)
            point += stride
            kills += 1
        done[name] = kills
    return done


def kill_at_random(folder: Path, kills: int) -> dict[str, int]:
    """One run, killed again and again, gone on with every time."""
    draw = random.Random(7)
    run = folder / "run"
    began = time.monotonic()
    ledger, checkpoint, _ = in_child(lambda say: work(run, 3, say))
    span_s = time.monotonic() - began
    died = 0
    for _ in range(kills):
        new_ledger, new_checkpoint, killed = in_child(
            lambda say: work(run, 10**9, say), draw.uniform(0, span_s)
        )
        # a life that ends before its first acknowledgement has lost nothing either; but it may have
        # taken back a step without checkpoint
        ledger, checkpoint = max(new_ledger, checkpoint), max(new_checkpoint, checkpoint)
        inspect(run, ledger, checkpoint)
        died += killed
    last = inspect(run, -1, -1) + 3
    in_child(lambda say: work(run, last, say))
    inspect(run, last, last)
    assert digest(run) == straight(folder / "straight", last)
    return {"kills": died, "steps": last}


def fill_up(folder: Path) -> dict[str, int]:
    """A step on a disk with a little more space each time, until it has enough; then the run goes
    on."""
    run, ballast = folder / "run", folder / "ballast"
    work(run, 2)
    failed: dict[str, int] = {"ledger": 0, "checkpoint": 0}
    free = 0
    while True:
        disk = os.statvfs(folder)
        with ballast.open("wb") as file:
            file.write(bytes(max(disk.f_bavail * disk.f_frsize - free, 0)))
        try:
            work(run, 3)
            break
        except StorageError as error:
            failed["ledger" if FILE in str(error) else "checkpoint"] += 1
            assert re.search("intact.*redqueen resume|not changed", str(error)), error
        assert inspect(run, 2, 2) <= 3  # step 3 is taken back where it has no checkpoint
        ballast.unlink()
        free += 4096
    ballast.unlink(missing_ok=True)
    work(run, 5)
    inspect(run, 5, 5)
    assert digest(run) == straight(folder / "straight", 5)
    return failed


if __name__ == "__main__":
    what, place, *count = sys.argv[1:]
    ways: dict[str, Callable[..., dict[str, int]]] = {
        "points": kill_at_points,
        "random": kill_at_random,
        "full": fill_up,
    }
    sys.stdout.write(json.dumps(ways[what](Path(place), *map(int, count))) + "\n")
