"""A sandbox driven by processes of its own: the same outcomes, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from redqueen.cli.bench.sandbox import find_descendants, make_jobs
from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import ConfigError, SandboxError
from redqueen.sandbox.backends import SANDBOXES, open_sandbox
from redqueen.sandbox.pool import SandboxPool
from redqueen.sandbox.remote import RemoteSandbox

pytestmark = pytest.mark.slow

TRAINER = """
from redqueen.config.sandbox import SandboxConfig
from redqueen.sandbox import Job, Limits
from redqueen.sandbox.remote import RemoteSandbox

print("imported", flush=True)
sandbox = RemoteSandbox(SandboxConfig(workers=5))
print("ready", flush=True)
"""
"""A user's script, as short scripts are: without `if __name__ == "__main__"`."""


class OwnPool(SandboxPool):
    """A sandbox of one's own."""


@pytest.mark.parametrize(("workers", "drivers"), [(1, 1), (5, 2)])
def test_outcomes_are_those_of_a_pool_in_order_with_any_number_of_drivers(
    workers: int, drivers: int
) -> None:
    batch = make_jobs(40, stable=True)
    with (
        SandboxPool(SandboxConfig(workers=1)) as pool,
        RemoteSandbox(SandboxConfig(workers=workers)) as remote,
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


def test_inspections_and_limits_cross_over_whole() -> None:
    batch = make_jobs(6, stable=True, inspected=True)
    with (
        SandboxPool(SandboxConfig(workers=1)) as pool,
        RemoteSandbox(SandboxConfig(workers=1)) as remote,
    ):
        expected = [(outcome.inspection, outcome.steps) for outcome in pool.run(batch)]
        assert [(outcome.inspection, outcome.steps) for outcome in remote.run(batch)] == expected
        assert all(inspection is not None for inspection, _ in expected)


@pytest.mark.parametrize("killed", [0, 1])
def test_when_one_of_its_processes_is_killed_it_says_so_instead_of_hanging(killed: int) -> None:
    with RemoteSandbox(SandboxConfig(workers=5)) as remote:
        os.kill(remote.drivers[killed].process.pid, signal.SIGKILL)
        with pytest.raises(SandboxError, match="has ended"):
            remote.run(make_jobs(8))
        with pytest.raises(SandboxError, match="is closed"):
            remote.run(make_jobs(8))


def test_walls_that_do_not_hold_in_another_process_are_reported_here(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import redqueen.sandbox.selftest as selftest\n"
        "selftest.ATTACKS = {'add one and one': 'def f(): return 1 + 1 == 2'}\n"
    )
    sys.path.insert(0, str(tmp_path))  # the drivers find modules where this process does
    try:
        with pytest.raises(SandboxError, match="a program can add one and one"):
            RemoteSandbox(SandboxConfig(workers=1))
    finally:
        sys.path.remove(str(tmp_path))


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(
        TRAINER + 'print(sandbox.run([Job("def f(): return 7")])[0].values)\nsandbox.close()\n'
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("imported\nready\n('7',)\n", "")


def test_nothing_is_left_two_seconds_after_the_trainer_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(
        TRAINER
        + 'sandbox.run([Job("def f():\\n    while True: pass", limits=Limits(cpu_s=2))] * 1000)\n'
    )
    trainer = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert trainer.stdout is not None
    assert [trainer.stdout.readline() for _ in range(2)] == [b"imported\n", b"ready\n"]
    time.sleep(0.3)
    family = find_descendants(trainer.pid)
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


@pytest.mark.parametrize(
    ("name", "beside_gpu", "expected"),
    [
        ("auto", False, SandboxPool),
        ("auto", True, RemoteSandbox),
        ("pool", True, SandboxPool),
        ("remote", False, RemoteSandbox),
        (f"{__name__}:OwnPool", True, OwnPool),
    ],
)
def test_the_type_decides_which_sandbox_is_opened(
    name: str, beside_gpu: bool, expected: type
) -> None:
    with open_sandbox(SandboxConfig(type=name, workers=1), beside_gpu) as sandbox:
        assert type(sandbox) is expected
        assert sandbox.run(make_jobs(1))[0].kind == "value"


def test_an_unknown_type_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="unknown sandbox 'remot'"):
        SandboxConfig(type="remot")
    with pytest.raises(ConfigError, match="cannot be imported"):
        open_sandbox(SandboxConfig(type="no_such_module:Sandbox"))
    assert sorted(SANDBOXES) == ["pool", "ray", "remote"]
