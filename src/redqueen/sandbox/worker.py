"""A worker: runs one job at a time, on three zygotes that differ in everything that a deterministic
program must not depend on."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Generator
from functools import cache
from pathlib import Path

from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import SandboxError
from redqueen.sandbox import wire
from redqueen.sandbox.job_protocol import REPLICAS, Reply, Request, run_job
from redqueen.sandbox.protocol import Job, Outcome

_HASH_SEEDS = (1, 20_011, 400_009)
_GRACE_S = 5.0  # past a request's wall limit; after that the zygote itself is considered dead
_START_S = 60.0
_PACKAGE_ROOT = Path(__file__).parents[2]


class Zygote:
    """The trainer's end of one zygote process."""

    def __init__(self, replica: int, config: SandboxConfig) -> None:
        self.replica = replica
        self.walls: dict[str, str] = {}
        self.closed = False
        self.socket, far_end = socket.socketpair()
        command = [sys.executable, "-s", "-S", "-P", str(Path(__file__).with_name("zygote.py"))]
        arguments = [str(far_end.fileno()), str(replica), str(_PACKAGE_ROOT), *config.without]
        with far_end:
            self.process = subprocess.Popen(
                [*command, *arguments, *(["unsafe"] if config.unsafe else [])],
                env={"PYTHONHASHSEED": str(_HASH_SEEDS[replica])},
                cwd="/",
                pass_fds=[far_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the trainer
            )
        self.socket.settimeout(_START_S)
        self._received = bytearray()
        _hang_up_in_forks()
        _zygotes.add(self)

    def wait_until_ready(self) -> None:
        """Read the first frame, which says which walls are up."""
        assert self.process.stderr is not None
        try:
            while (reply := self.receive(wire.GREETING)) is None:
                pass
        except OSError as error:
            self.process.kill()  # it may only be slow; killed, its stderr comes to an end
            stderr = self.process.stderr.read().decode(errors="replace").strip()
            reason = stderr.rpartition("\n")[2] or error
            raise SandboxError(
                f"a sandbox process does not start: {reason}; `redqueen doctor` tells more"
            ) from error
        self.process.stderr.close()
        self.walls = json.loads(reply.body)
        self.socket.settimeout(_GRACE_S)

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def receive(self, serial: int) -> Reply | None:
        """Read what has arrived; the reply to this request once it is complete. Replies to
        abandoned requests are dropped. Raises OSError if the zygote is gone."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the zygote closed its socket")
        self._received += data
        head = wire.REPLY.size
        while len(self._received) >= head:
            reply_to, state, status, cpu_s, size = wire.REPLY.unpack_from(self._received)
            if len(self._received) < head + size:
                return None
            body = bytes(self._received[head : head + size])
            del self._received[: head + size]
            if reply_to == serial:
                return Reply(
                    state, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, cpu_s, body
                )
        return None

    def hang_up(self) -> None:
        """Close the socket; the process exits when it notices."""
        self.closed = True
        self.socket.close()

    def close(self) -> None:
        """Hang up and wait for the process to exit; kill it if it does not."""
        self.hang_up()
        if self.process.stderr is not None:
            self.process.stderr.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_zygotes: weakref.WeakSet[Zygote] = weakref.WeakSet()


@cache
def _hang_up_in_forks() -> None:
    """A process forked from the trainer (a data loader, say) must not keep zygotes alive after the
    trainer is gone."""

    def hang_up() -> None:
        for zygote in _zygotes:
            zygote.socket.close()

    os.register_at_fork(after_in_child=hang_up)


class Worker:
    """Drives one job at a time. A run that was killed from outside is retried once: that is a
    failure of infrastructure, never of the program."""

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self.zygotes = [Zygote(replica, config) for replica in range(REPLICAS)]
        self.restarts = 0
        self.index = -1
        self.job: Generator[Request, Reply, Outcome] | None = None
        self.request: Request | None = None
        self.deadline = 0.0
        self.retried = False

    @property
    def zygote(self) -> Zygote:
        """The zygote of the current request."""
        assert self.request is not None
        return self.zygotes[self.request.replica]

    def start(self, index: int, job: Job) -> Outcome | None:
        """Start a job; its outcome, if no run is needed."""
        self.index, self.job = index, run_job(job)
        return self._advance(None)

    def ready(self) -> Outcome | None:
        """Read from the current zygote; the outcome, if that completes the job."""
        try:
            assert self.request is not None
            reply = self.zygote.receive(self.request.serial)
        except OSError:
            return self.failed()
        if reply is None:
            return None
        # nothing inside the walls can send SIGKILL, so it came from outside
        if reply.signal == signal.SIGKILL and reply.state == wire.DONE:
            return self.failed()
        return self._advance(reply)

    def failed(self) -> Outcome | None:
        """The current zygote is gone or silent, or its child was killed from outside."""
        self.restart(self.zygote)
        if self.retried:
            return self._advance(Reply(wire.DONE, 0, 0.0, b"", infrastructure=True))
        self.retried = True
        return self._send()

    def restart(self, zygote: Zygote) -> None:
        zygote.close()
        fresh = Zygote(zygote.replica, self.config)
        self.zygotes[zygote.replica] = fresh
        self.restarts += 1
        fresh.wait_until_ready()

    def drop(self) -> None:
        """Abandon the current job. Its zygote is replaced when it is next needed, so that the next
        job does not wait for this one."""
        if self.request is not None:
            self.zygote.hang_up()
        self.job, self.request = None, None

    def _advance(self, reply: Reply | None) -> Outcome | None:
        assert self.job is not None
        try:
            self.request = next(self.job) if reply is None else self.job.send(reply)
        except StopIteration as stop:
            self.job, self.request = None, None
            outcome: Outcome = stop.value
            return outcome
        self.retried = False
        return self._send()

    def _send(self) -> Outcome | None:
        assert self.request is not None
        if self.zygote.closed:
            self.restart(self.zygote)
        self.deadline = time.monotonic() + self.request.wall_s + _GRACE_S
        try:
            self.zygote.send(self.request.frame)
        except OSError:
            return self.failed()
        return None

    def hang_up(self) -> None:
        for zygote in self.zygotes:
            zygote.hang_up()

    def close(self) -> None:
        for zygote in self.zygotes:
            zygote.close()
