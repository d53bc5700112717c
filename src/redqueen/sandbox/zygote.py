"""The zygote: a small fork server that is started by exec, locks itself down, and forks a child for
each request.

    python -s -S -P zygote.py SOCKET_FD REPLICA PACKAGE_ROOT [WALL to leave down...] [unsafe]

It is never forked from the trainer, so its memory holds nothing of the trainer (answers, keys,
device state). It never makes Python objects from the content of requests or replies: both pass
through buffers that are wiped before the next fork, so that no child can find what an earlier one
received or wrote. It exits when its socket closes, and everything in its pid namespace with it.
"""

import os

# The standard library's fork hooks (reseeding, locks) would cost each child 0.8 ms.
os.register_at_fork = lambda **hooks: None

import sys

# See prepare.shift_addresses. Several blocks, because the first may fit into a gap that compiling
# this file has left.
_heap_shift = [bytes(120_000 + 16 * (5 * int(sys.argv[2]) + 1)) for _ in range(4)]

import gc
import json
import mmap
import resource
import select
import signal
import time
from collections.abc import Callable

# The standard library works without these; every child would pay for OpenSSL and the like.
for heavy in ("_hashlib", "_uuid", "_posixsubprocess"):
    sys.modules[heavy] = None  # type: ignore[assignment]
sys.path.append(sys.argv[3])
from redqueen.sandbox import prepare

# Before the harness, so that the objects of the harness lie close together: 20 page faults fewer
# per child.
prepare.import_modules()
from redqueen.sandbox import child, lockdown, wire

_monotonic, _sleep = time.monotonic, time.sleep  # bound before the clock is frozen


def main() -> None:
    host = int(sys.argv[1])
    replica, options = int(sys.argv[2]), sys.argv[4:]
    _silence()
    prepare.warm_up()
    if lockdown.LINUX:
        prepare.keep_code_mapped()
    server = Server(host, unsafe="unsafe" in options)
    walls = server.lock_down(without=set(options))
    prepare.freeze_environment(replica)
    prepare.forget_harness()
    report = json.dumps(walls).encode()
    server.send(wire.REPLY.pack(wire.GREETING, wire.DONE, 0, 0.0, len(report)), report)
    gc.collect()
    # Last, because memory freed after it would be reused first, and alike in all replicas.
    prepare.shift_addresses(replica)
    gc.freeze()  # or a collection in a child would touch, and so copy, the pages it shares
    while True:
        server.serve_one()


def _silence() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


class Server:
    def __init__(self, host: int, unsafe: bool) -> None:
        self.host = host
        self.unsafe = unsafe
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # the default is shared with every child
        self.request = memoryview(mmap.mmap(-1, wire.MAX_BODY, flags=private))
        self.reply = memoryview(mmap.mmap(-1, wire.MAX_BODY, flags=private))
        self.filter: lockdown.SeccompFilter | None = None
        self.own_namespace = False
        self.address_space = 0
        self.memory = 0

    # walls

    def lock_down(self, without: set[str]) -> dict[str, str]:
        """Build every wall that this machine allows; returns for each `up` or the reason why it is
        down. The walls of a child are tried out here and built there."""
        walls: dict[str, str] = {}

        def build(name: str, wall: Callable[[], object]) -> None:
            try:
                if name in without:
                    raise OSError("switched off")
                version = wall()
                walls[name] = f"up (version {version})" if isinstance(version, int) else "up"
            except (OSError, KeyError, AttributeError) as error:
                walls[name] = f"down: {error}"

        self.address_space = lockdown.address_space() if lockdown.LINUX else 0
        build("namespaces", lockdown.new_namespaces)
        if walls["namespaces"] == "up":
            build("empty_root", lockdown.empty_root)
            self.own_namespace = True
        self._leave_watchdog()
        build("privileges", lockdown.drop_privileges)
        build("no_new_privileges", lockdown.no_new_privileges)
        build("landlock", lockdown.landlock)
        build("not_dumpable", lockdown.not_dumpable)
        build("die_with_parent", lockdown.die_with_parent)
        lockdown.limit(resource.RLIMIT_CORE, 0)
        lockdown.limit(resource.RLIMIT_NOFILE, 24)
        build("seccomp", self._try_seccomp)
        return walls

    def _leave_watchdog(self) -> None:
        """Continue in a child, which is process 1 of the new pid namespace if there is one. The
        process left behind kills it, and with it everything it has started, when the trainer is
        gone, even if it is busy."""
        pid = os.fork()
        if pid:
            _wait_for_either(pid, self.host)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os._exit(0)

    def _try_seccomp(self) -> None:
        seccomp = lockdown.SeccompFilter()
        self._try_in_child(seccomp.install)
        self.filter = seccomp

    def _try_in_child(self, wall: Callable[[], object]) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                wall()
                os._exit(0)
            except OSError as error:
                os._exit(error.errno or 1)
            finally:
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            raise OSError(status, os.strerror(status) if status > 0 else "the trial child died")

    # requests

    def serve_one(self) -> None:
        head = wire.Head(*wire.REQUEST.unpack(self._receive(bytearray(wire.REQUEST.size))))
        body = self.request[: head.body]
        self._receive(body)
        deadline = _monotonic() + head.wall_s
        self._limit_memory(head.memory)
        result_fd, pids = (
            self._start_tests(head, body) if head.mode == wire.TESTS else self._start(head, body)
        )
        _wipe(body)
        state, size = self._collect(result_fd, deadline, head.reply)
        os.close(result_fd)
        state, status, cpu_s = self._reap(pids, state, deadline)
        sent = size if state == wire.DONE else 0
        self.send(wire.REPLY.pack(head.serial, state, status, cpu_s, sent), self.reply[:sent])
        _wipe(self.reply[:size])

    def _limit_memory(self, memory: int) -> None:
        """Children inherit the limit, so it is set only when it changes. Behind the filter nothing
        can raise it."""
        if memory != self.memory:
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            space = self.address_space + memory
            resource.setrlimit(
                resource.RLIMIT_AS,
                (space if hard == resource.RLIM_INFINITY else min(space, hard), hard),
            )
            self.memory = memory

    def _receive(self, buffer: bytearray | memoryview) -> bytearray | memoryview:
        view, at = memoryview(buffer), 0
        while at < len(view):
            count = os.readv(self.host, [view[at:]])
            if not count:
                os._exit(0)
            at += count
        return buffer

    def send(self, head: bytes, body: bytes | memoryview) -> None:
        sent = os.writev(self.host, [head, body]) - len(head)
        while sent < len(body):
            sent += os.write(self.host, body[sent:])

    def _start(self, head: wire.Head, body: memoryview) -> tuple[int, list[int]]:
        result_read, result_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._confine(head, body, close=[result_read])
            child.run(head, body, result_write)
        os.close(result_write)
        return result_read, [pid]

    def _start_tests(self, head: wire.Head, body: memoryview) -> tuple[int, list[int]]:
        """Two children: the program, and the tests that call it. Only the tests can write a
        result."""
        result_read, result_write = os.pipe()
        calls_read, calls_write = os.pipe()
        answers_read, answers_write = os.pipe()
        program = os.fork()
        if program == 0:
            self._confine(head, body, close=[result_read, result_write, calls_write, answers_read])
            child.serve(head, body, calls_read, answers_write)
        os.close(calls_read)
        os.close(answers_write)
        tests = os.fork()
        if tests == 0:
            self._confine(head, body, close=[result_read])
            child.run_tests(head, body, result_write, calls_write, answers_read)
        for fd in (result_write, calls_write, answers_read):
            os.close(fd)
        return result_read, [program, tests]

    def _confine(self, head: wire.Head, body: memoryview, close: list[int]) -> None:
        """The first thing a child does: close what it must not have, set its limits and its timer,
        and install the filter last. If any of this fails, the child exits."""
        try:
            for fd in (self.host, *close):
                os.close(fd)
            if head.mode == wire.SCRIPT:
                _replace_standard_streams(body, head.output)
            if not self.own_namespace:
                lockdown.die_with_parent()
            if self.filter is None:
                resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            # The default action of SIGPROF is to terminate, and the filter denies sigaction.
            signal.setitimer(signal.ITIMER_PROF, head.cpu_s)
            if self.filter is not None:
                self.filter.install()
            elif not self.unsafe:
                os._exit(71)
        except BaseException:
            os._exit(70)

    def _collect(self, result_fd: int, deadline: float, max_bytes: int) -> tuple[int, int]:
        """Read what the child writes until it closes its end, up to the wall limit and the output
        limit. Returns the state, and how much of the buffer was used."""
        poll = select.poll()
        poll.register(result_fd, select.POLLIN)
        size = 0
        while True:
            left = deadline - _monotonic()
            if left <= 0:
                return wire.WALL, size
            if poll.poll(left * 1000 + 1):
                end = min(size + (1 << 20), max_bytes + 1)
                count = os.readv(result_fd, [self.reply[size:end]])
                if not count:
                    return wire.DONE, size
                size += count
                if size > max_bytes:
                    return wire.TOO_MUCH, size

    def _reap(self, pids: list[int], state: int, deadline: float) -> tuple[int, int, float]:
        """Wait for every child, killing those that do not exit: the state, the first wait status
        that is not ours, and the CPU time. A child that has closed its pipe is about to exit, and
        has until the wall limit to do so."""
        first_status, cpu_s = 0, 0.0
        for pid in pids:
            if state == wire.DONE and not _exits_before(pid, deadline):
                state = wire.WALL
            if state != wire.DONE:
                os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            first_status = first_status or (status if state == wire.DONE else 0)
            cpu_s += usage.ru_utime + usage.ru_stime
        return state, first_status, cpu_s


def _exits_before(pid: int, deadline: float) -> bool:
    poll = select.poll()
    try:
        pidfd = os.pidfd_open(pid)
    except (OSError, AttributeError):  # before Linux 5.3
        while _monotonic() < deadline:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
            _sleep(0.001)
        return False
    poll.register(pidfd, select.POLLIN)
    exited = bool(poll.poll(max(0.0, deadline - _monotonic()) * 1000))
    os.close(pidfd)
    return exited


def _wait_for_either(pid: int, host: int) -> None:
    """Until the process exits or the trainer hangs up."""
    poll = select.poll()
    poll.register(host, 0)  # hang-up only
    try:
        poll.register(os.pidfd_open(pid), select.POLLIN)
        poll.poll()
    except (OSError, AttributeError):  # before Linux 5.3
        while (
            not poll.poll(100)
            and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        ):
            pass


_ZEROS = bytes(1 << 16)


def _wipe(buffer: memoryview) -> None:
    for at in range(0, len(buffer), len(_ZEROS)):
        part = buffer[at : at + len(_ZEROS)]
        part[:] = _ZEROS[: len(part)]


def _replace_standard_streams(body: memoryview, max_bytes: int) -> None:
    """Make standard input and output of a script files in memory, so that every way to read and
    write them works."""
    order = wire.read_order(body)
    text = body[order.start + sum(order.sizes[:2]) :]
    for fd in (0, 1):
        memory = os.memfd_create("stream")
        os.dup2(memory, fd)
        os.close(memory)
    os.dup2(1, child.OUTPUT_FD)
    while text:
        text = text[os.write(0, text) :]
    os.lseek(0, 0, os.SEEK_SET)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))


if __name__ == "__main__":
    main()
