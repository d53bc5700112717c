"""Kills and leaks: whatever dies, jobs keep their outcomes and nothing is left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redqueen.cli.bench.sandbox import find_descendants, make_jobs, measure_footprint
from redqueen.config.sandbox import SandboxConfig, Wall
from redqueen.errors import SandboxError
from redqueen.sandbox import Job, Limits
from redqueen.sandbox.pool import SandboxPool

pytestmark = pytest.mark.slow


def zygote_processes(pool: SandboxPool) -> list[int]:
    """The serving processes: behind a pid namespace the started one is only the outer half."""
    return [
        (find_descendants(zygote.process.pid) or [zygote.process.pid])[0]
        for worker in pool.workers
        for zygote in worker.zygotes.values()
    ]


def outer_processes(pool: SandboxPool) -> list[int]:
    return [zygote.process.pid for worker in pool.workers for zygote in worker.zygotes.values()]


@pytest.mark.parametrize(
    "victims", [zygote_processes, outer_processes], ids=["zygotes", "outer halves"]
)
def test_killed_zygotes_are_replaced_and_every_job_keeps_its_outcome(
    victims: Callable[[SandboxPool], list[int]],
) -> None:
    batch = make_jobs(60, stable=True)
    with SandboxPool(SandboxConfig(workers=2)) as pool:
        expected = [outcome.results for outcome in pool.run(batch)]
        for pid in victims(pool):
            os.kill(pid, signal.SIGKILL)
        assert [outcome.results for outcome in pool.run(batch)] == expected
        got = []
        for index, outcome in pool.stream(batch):
            got.append((index, outcome.results))
            if len(got) in (5, 25, 45):
                os.kill(victims(pool)[len(got) % 6], signal.SIGKILL)
        assert [results for _, results in sorted(got)] == expected
        assert pool.restarts >= 8


def test_a_child_shot_from_outside_is_run_again() -> None:
    program = "def f():\n    for _ in range(3 * 10**6): pass\n    return 1"
    with SandboxPool(SandboxConfig(workers=1)) as pool:
        serving = zygote_processes(pool)[0]
        shooter = threading.Thread(target=_shoot_first_child, args=(serving,))
        shooter.start()
        outcome = pool.run([Job(program, limits=Limits(cpu_s=20))])[0]
        shooter.join()
        assert outcome.values == ("1",)
        assert pool.restarts == 1


def _shoot_first_child(parent: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for child in find_descendants(parent):
            os.kill(child, signal.SIGKILL)
            return


def test_a_zygote_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redqueen.sandbox.worker._GRACE_S", 0.3)
    with SandboxPool(SandboxConfig(workers=1)) as pool:
        os.kill(zygote_processes(pool)[0], signal.SIGSTOP)
        assert pool.run([Job("def f(): return 1", limits=Limits(cpu_s=0.05))])[0].values == ("1",)
        assert pool.restarts == 1


def test_leaving_a_stream_early_does_not_confuse_the_next_run() -> None:
    with SandboxPool(SandboxConfig(workers=2)) as pool:
        for _ in pool.stream(Job(f"def f(): return {number}") for number in range(10)):
            break
        assert [
            outcome.values
            for outcome in pool.run([Job(f"def f(): return {number}") for number in range(20, 26)])
        ] == [(str(number),) for number in range(20, 26)]


@pytest.mark.parametrize("without", ["", "namespaces"])
def test_nothing_is_left_two_seconds_after_the_trainer_is_killed(
    without: str, tmp_path: Path
) -> None:
    code = f"""
    from redqueen.config.sandbox import SandboxConfig
    from redqueen.sandbox.pool import SandboxPool
    from redqueen.sandbox import Job, Limits
    with SandboxPool(SandboxConfig(workers=2, without={(without,) if without else ()})) as pool:
        print("ready", flush=True)
        pool.run([Job("def f():\\n    while True: pass", limits=Limits(cpu_s=2))] * 1000)
    """
    trainer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE
    )
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    family = find_descendants(trainer.pid)
    assert len(family) >= 8  # six zygotes and two children at work
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    time.sleep(2)
    assert [pid for pid in family if _is_alive(pid)] == []


def test_a_process_forked_from_the_trainer_keeps_no_zygote_alive() -> None:
    code = """
    import os, time
    from redqueen.config.sandbox import SandboxConfig
    from redqueen.sandbox.pool import SandboxPool
    pool = SandboxPool(SandboxConfig(workers=1))
    if os.fork() == 0:
        time.sleep(5)
        os._exit(0)
    print("ready", flush=True)
    time.sleep(60)
    """
    trainer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE
    )
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == b"ready\n"
    family = find_descendants(trainer.pid)
    assert len(family) >= 7
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    time.sleep(2)
    assert len([pid for pid in family if _is_alive(pid)]) == 1  # the forked one itself


@pytest.mark.parametrize("without", [(), ("namespaces",)])
def test_a_pool_outlives_the_thread_that_opened_it(without: tuple[Wall, ...]) -> None:
    opened: list[SandboxPool] = []
    thread = threading.Thread(
        target=lambda: opened.append(SandboxPool(SandboxConfig(workers=1, without=without)))
    )
    thread.start()
    thread.join()
    time.sleep(0.2)
    with opened[0] as pool:
        assert pool.run([Job("def f(): return 1", stable=True)])[0].values == ("1",)
        assert pool.restarts == 0


def _is_alive(pid: int) -> bool:
    """A zombie that waits for a slow init to reap it is not alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_jobs_leave_no_memory_processes_descriptors_or_files_behind(pool: SandboxPool) -> None:
    batch = [
        *make_jobs(40),
        Job("import os\ndef f(): os.abort()"),
        Job("def f(): return 1 / 0"),
        Job("print(1)", mode="script"),
        Job("def f(): return 1", mode="tests", tests="candidate()"),
    ]
    pool.run(batch * 3)
    before = measure_footprint()
    pool.run(batch * 20)
    after = measure_footprint()
    assert after["processes"] == before["processes"]
    assert after["descriptors"] == before["descriptors"]
    assert after["trainer_mb"] < before["trainer_mb"] + 8
    assert after["largest_zygote_mb"] < before["largest_zygote_mb"] + 3


def test_a_zygote_that_cannot_start_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("redqueen.sandbox.worker._PACKAGE_ROOT", tmp_path)
    with pytest.raises(SandboxError, match="No module named 'redqueen'"):
        SandboxPool(SandboxConfig(workers=1))


def test_a_closed_pool_says_so() -> None:
    pool = SandboxPool(SandboxConfig(workers=1))
    pool.close()
    with pytest.raises(SandboxError, match="closed"):
        pool.run([Job("def f(): return 1")])


def test_closing_ends_every_process() -> None:
    pool = SandboxPool(SandboxConfig(workers=1))
    family = outer_processes(pool) + zygote_processes(pool)
    pool.close()
    assert [pid for pid in family if _is_alive(pid)] == []


def test_without_privileges_the_walls_still_hold() -> None:
    """As in a container that drops every capability: what cannot be built is reported, what remains
    holds."""
    code = """
    import ctypes, struct, platform
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)
    assert libc.syscall({"x86_64": 126, "aarch64": 91}[platform.machine()], struct.pack("<Ii", 0x20080522, 0), bytes(24)) == 0
    from redqueen.config.sandbox import SandboxConfig
    from redqueen.sandbox.pool import SandboxPool
    from redqueen.sandbox import Job
    for without in ((), ("namespaces",), ("namespaces", "landlock")):
        with SandboxPool(SandboxConfig(workers=1, without=without)) as pool:
            print(pool.walls["seccomp"], pool.run([Job("def f(x): return x", ("7",), stable=True)])[0].values)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert out.stdout == "up ('7',)\n" * 3, out.stderr
