"""A sandbox driven by a process of its own: the same outcomes, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from redqueen.cli.bench.sandbox import _descendants, jobs
from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import SandboxError
from redqueen.sandbox.pool import SandboxPool
from redqueen.sandbox.remote import RemoteSandbox

TRAINER = """
from redqueen.sandbox import Job, Limits
from redqueen.sandbox.remote import RemoteSandbox

if __name__ == "__main__":
    with RemoteSandbox(SandboxConfig(workers=5)) as sandbox:
        print("ready", flush=True)
        sandbox.run([Job("def f():\\n    while True: pass", limits=Limits(cpu_s=2))] * 1000)
"""


@pytest.mark.parametrize(("lanes", "drivers"), [(1, 1), (5, 2)])
def test_outcomes_are_those_of_a_pool_in_order_however_many_drive_it(
    lanes: int, drivers: int
) -> None:
    batch = jobs(40, stable=True)
    with (
        SandboxPool(SandboxConfig(workers=1)) as pool,
        RemoteSandbox(SandboxConfig(workers=lanes)) as remote,
    ):
        assert remote.walls == pool.walls
        assert len(remote.drivers) == drivers
        assert [outcome.results for outcome in remote.run(batch)] == [
            outcome.results for outcome in pool.run(batch)
        ]
        assert remote.run([]) == []
        assert [outcome.results for outcome in remote.run(batch[:1])] == [
            outcome.results for outcome in pool.run(batch[:1])
        ]


@pytest.mark.parametrize("killed", [0, 1])
def test_when_one_of_its_processes_is_killed_it_says_so_instead_of_hanging(killed: int) -> None:
    with RemoteSandbox(SandboxConfig(workers=5)) as remote:
        pid = remote.drivers[killed].process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxError, match="has ended"):
            remote.run(jobs(8))
        with pytest.raises(SandboxError, match="is closed"):
            remote.run(jobs(8))


def test_nothing_is_left_two_seconds_after_the_trainer_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    trainer = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    family = _descendants(trainer.pid)
    assert len(family) >= 2 + 3 * 5
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    time.sleep(2)
    assert [
        pid
        for pid in family
        if Path(f"/proc/{pid}/stat").exists()
        and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    ] == []
