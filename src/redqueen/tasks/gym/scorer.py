"""The worker process of reasoning-gym, as this process sees it: started with the first request,
killed and replaced where it does not answer, or answers another request."""

import atexit
import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
from typing import Any

from redqueen.errors import ConfigError

CPU_S = 5.0
WALL_S = 60.0
_START_S = 120.0
_MAX_REPLY = 1 << 20
_ENVIRONMENT = ("PATH", "PYTHONPATH", "HOME", "VIRTUAL_ENV")
_FIXED = {"PYTHONHASHSEED": "0"}
"""Some entries follow from the order of a set: another process would make others."""


class Scorer:
    """One request at a time, from any thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._request = 0
        self.datasets: tuple[str, ...] = ()
        atexit.register(self.close)

    def start(self) -> tuple[str, ...]:
        """The data sets that there are."""
        with self._lock:
            self._start()
        return self.datasets

    def ask(self, dataset: str, seed: int, index: int, answer: str | None = None) -> dict[str, Any]:
        """The entry, or the verdict on an answer to it. An `error` where there is neither."""
        with self._lock:
            process = self._start()
            self._request += 1
            request = {
                "request": self._request,
                "dataset": dataset,
                "seed": seed,
                "index": index,
                "answer": answer,
            }
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            found = self._read(process, WALL_S)
            if found is None or found.get("request") != self._request:
                self._kill()
                return {"error": "timeout" if found is None else "another request"}
            return found

    def close(self) -> None:
        with self._lock:
            self._kill()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._kill()
        process = subprocess.Popen(
            [sys.executable, "-m", "redqueen.tasks.gym.worker", str(CPU_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT}
            | _FIXED,
        )
        self._process = process
        message = self._read(process, _START_S) or {"refused": "its process does not start"}
        if "refused" in message:
            self._kill()
            raise ConfigError(
                f"problems of reasoning-gym: {message['refused']}. It is an extra: "
                "pip install 'redqueen[reasoning-gym]'"
            )
        self.datasets = tuple(message["datasets"])
        return process

    def _read(self, process: subprocess.Popen[bytes], timeout_s: float) -> dict[str, Any] | None:
        """The next message; None where none comes in time, or the process has ended."""
        assert process.stdout is not None
        pending = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not pending.endswith(b"\n") and len(pending) < _MAX_REPLY:
                if not selector.select(timeout_s):
                    return None
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    return None
                pending += chunk
        with contextlib.suppress(ValueError):
            message: dict[str, Any] = json.loads(pending)
            return message
        return None

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


SCORER = Scorer()
