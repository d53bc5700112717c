"""A worker: runs one job at a time, on zygotes that differ in all that a deterministic program must
not depend on."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Generator, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import SandboxError
from redqueen.sandbox import wire
from redqueen.sandbox.job_protocol import Reply, Request, run_job
from redqueen.sandbox.protocol import Job, Outcome
from redqueen.sandbox.replicas import HASH_SEEDS, REPLICAS

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
                env={
                    "PYTHONHASHSEED": str(HASH_SEEDS[replica]),
                    # or the C library lets the kernel write the number of the processor into it
                    "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
                },
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
                f"a sandbox process does not start: {reason}; `redqueen doctor` says more"
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


def peak_memory_mb(job: Job) -> int:
    """What the children of a job may use at a time."""
    processes = 2 if job.mode == "tests" else 1
    return processes * job.limits.memory_mb * (3 if job.stable else 2) // 2


class Unfinished(NamedTuple):
    """A job on its way to another worker."""

    number: int
    memory_mb: int
    job: Generator[Request, Reply, Outcome]
    request: Request


class Worker:
    """Drives one job at a time. A run that was killed from outside is retried once: that is a
    failure of infrastructure, never of the program."""

    def __init__(self, config: SandboxConfig, replicas: Iterable[int] = range(REPLICAS)) -> None:
        self.config = config
        self.zygotes = {replica: Zygote(replica, config) for replica in replicas}
        self.restarts = 0
        self.index = -1
        self.memory_mb = 0
        self.job: Generator[Request, Reply, Outcome] | None = None
        self.request: Request | None = None
        self.deadline = 0.0
        self.retried = False

    @property
    def zygote(self) -> Zygote:
        """The zygote of the current request."""
        assert self.request is not None
        return self.zygotes[self.request.replica]

    @property
    def needs_jury(self) -> bool:
        """The current request is for a replica that another worker has."""
        return self.request is not None and self.request.replica not in self.zygotes

    def start(self, index: int, job: Job) -> Outcome | None:
        """Start a job; its outcome, if no run is needed."""
        self.index, self.job, self.memory_mb = index, run_job(job), peak_memory_mb(job)
        return self._advance(None)

    def wait_until_ready(self) -> None:
        for zygote in self.zygotes.values():
            zygote.wait_until_ready()

    def hand_over(self) -> Unfinished:
        """Leave the current job to a worker that has the replica it needs."""
        assert self.job is not None and self.request is not None
        unfinished = Unfinished(self.index, self.memory_mb, self.job, self.request)
        self.job, self.request = None, None
        return unfinished

    def take_over(self, unfinished: Unfinished) -> Outcome | None:
        self.index, self.memory_mb, self.job, self.request = unfinished
        self.retried = False
        return self._send()

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
        if self.request is not None and not self.needs_jury:
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
        return None if self.needs_jury else self._send()

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
        for zygote in self.zygotes.values():
            zygote.hang_up()

    def close(self) -> None:
        for zygote in self.zygotes.values():
            zygote.close()
