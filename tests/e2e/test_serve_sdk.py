"""The official Tinker SDK, unmodified and in a process of its own, against `redqueen serve`.

REDQUEEN_KILLS=20 asks for more kills of the server than the suite has time for. A restart is almost
all imports (torch and transformers), so the servers that are killed are forked from a process that
has them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import processes

CLIENTS = Path(__file__).with_name("serve_clients.py")
KEYS = [f"tml-secret-{name}" for name in ("ada", "bob", "eve", "kim")]
KILLS = int(os.environ.get("REDQUEEN_KILLS", "2"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    folder: Path, port: int, base: str = "pawn", place: Path | None = None
) -> "subprocess.Popen[bytes]":
    """A server that answers."""
    command = [sys.executable, "-m", "redqueen", *words(folder, port, base)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=place)
    wait_for(port, lambda: server.poll() is None)
    return server


def words(folder: Path, port: int, base: str = "pawn") -> list[str]:
    command = ["serve", "--base", base, "--rank", "8", "--checkpoint-every", "3"]
    command += ["--folder", str(folder), "--port", str(port), "--slots", "6", "--threads", "1"]
    for key in KEYS:
        command += ["--key", f"{key.rpartition('-')[2]}={key}"]
    return command


def wait_for(port: int, is_alive: Callable[[], bool]) -> None:
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/healthz", timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            assert is_alive()
            time.sleep(0.05)


@contextmanager
def clients(
    port: int, steps: int, keys: Sequence[str], progress: str = ""
) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, str(CLIENTS), f"http://127.0.0.1:{port}", str(steps), *keys]
    environment = {**os.environ, "TINKER_TELEMETRY": "0", "PROGRESS": progress}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read(process: "subprocess.Popen[str]", timeout_s: float = 280) -> list[dict[str, Any]]:
    output, _ = process.communicate(timeout=timeout_s)
    told: list[dict[str, Any]] = json.loads(output.splitlines()[-1])
    assert not [one["error"] for one in told if "error" in one]
    return told


@pytest.mark.slow
def test_four_tenants_learn_at_once_through_the_sdk(tmp_path: Path) -> None:
    port = free_port()
    server = start(tmp_path, port)
    try:
        with clients(port, 4, KEYS) as process:
            told = read(process)
    finally:
        server.terminate()
        server.wait()
    for number, one in enumerate(told):
        assert one["gap"] < 1e-4 and one["rank"] == 4 + number % 2
        assert one["steps"] == [1, 2, 3, 4]
        assert abs(one["restored"][0] - one["restored"][1]) < 1e-3 and one["saved"]
    assert sum(one["rewards"][-1] > one["rewards"][0] for one in told) >= 2


@pytest.mark.slow
@pytest.mark.timeout(240 + 30 * KILLS)
def test_kills_of_the_server_lose_no_acknowledged_step(tmp_path: Path) -> None:
    """Clients go on as if nothing had been: every step counts one more than the last. A kill comes
    at any moment after a step, so that there is progress between two."""
    port, steps, progress = free_port(), 2 * KILLS + 4, tmp_path / "progress"
    progress.touch()

    def launch(number: int) -> processes.Command:
        server = processes.start(tmp_path / f"out{number}", *words(tmp_path / "served", port))
        wait_for(port, server.process.is_alive)
        return server

    server = launch(0)
    try:
        with clients(port, steps, KEYS[:2], str(progress)) as process:
            for kill in range(KILLS):
                seen = progress.read_text().count("\n") if kill else 0
                while progress.read_text().count("\n") <= seen:
                    assert process.poll() is None
                    time.sleep(0.02)
                time.sleep(0.13 * kill % 0.7)
                server.signal(signal.SIGKILL)
                server.process.join()
                server = launch(kill + 1)
            told = read(process, 240 + 10 * KILLS)
    finally:
        server.process.kill()
        server.process.join()
    for one in told:
        assert one["steps"] == list(range(1, steps + 1))
        assert one["gap"] < 1e-4 and abs(one["restored"][0] - one["restored"][1]) < 1e-3
