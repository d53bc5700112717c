"""The zygote: a small fork server that is started by exec, locks itself down, and forks a child for
each request.

    python -s -S -P zygote.py SOCKET_FD REPLICA PACKAGE_ROOT [WALL to leave down...] [unsafe]

It is never forked from the trainer, so its memory holds nothing of the trainer (answers, keys,
device state). It never makes Python objects from the content of requests or replies: both pass
through buffers that are wiped before the next fork, so that no child can find what an earlier one
received or wrote. It exits when its socket closes, and everything in its pid namespace with it.

A program can see the frames of this module above its own. So what belongs to a request is kept in
attributes, which a child clears before the program runs, and never in a local.
"""

import os

# The standard library's fork hooks (reseeding, locks) would cost each child 0.8 ms.
os.register_at_fork = lambda **hooks: None

import sys

# See prepare.Memory. Several blocks, because the first may fit into a gap that compiling this file
# has left.
_layout = {"2": 1}.get(sys.argv[2]) or int(sys.argv[2])  # see replicas.layout
_heap_shift = [bytes(120_000 + 16 * (5 * _layout + 1)) for _ in range(4)]

import gc
import json
import mmap
import resource
import select
import signal
from collections.abc import Callable

# The standard library works without these; every child would pay for OpenSSL and the like.
for heavy in ("_hashlib", "_uuid", "_posixsubprocess"):
    sys.modules[heavy] = None  # type: ignore[assignment]
sys.path.append(sys.argv[3])
from redqueen.sandbox import prepare

# Before the harness, so that the objects of the harness lie close together: 20 page faults fewer
# per child.
prepare.import_modules()
from redqueen.sandbox import candidate, child, frozen_libc, host_traces, lockdown, replicas, wire


def main() -> None:
    host = int(sys.argv[1])
    replica, options = int(sys.argv[2]), sys.argv[4:]
    null = os.open("/dev/null", os.O_RDWR)
    replicas.differ(replica)
    host_traces.remove()
    server = Server(host, replica, unsafe="unsafe" in options)
    prepare.warm_up(server.rehearse)  # after the changes to modules, which undo it
    memory = None
    if lockdown.LINUX:
        prepare.keep_code_mapped()
        gc.collect()
        memory = prepare.Memory()
    walls = server.lock_down(without=set(options))
    prepare.answer_fstat()
    prepare.forget_harness()
    for fd in (0, 1, 2):  # only now: until here an error is told
        os.dup2(null, fd)
    os.close(null)
    report = json.dumps(walls).encode()
    server.send(wire.REPLY.pack(wire.GREETING, wire.DONE, 0, 0.0, len(report)), report)
    gc.collect()
    if memory is not None:
        memory.start_afresh(replicas.layout(replica))
    gc.freeze()  # or a collection in a child would touch, and so copy, the pages it shares
    while True:
        server.serve_one()


class Server:
    def __init__(self, host: int, replica: int, unsafe: bool) -> None:
        self.host = host
        self.replica = replica
        self.unsafe = unsafe
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # the default is shared with every child
        self.buffers = [mmap.mmap(-1, wire.MAX_BODY, flags=private) for _ in range(2)]
        self.request, self.reply = memoryview(self.buffers[0]), memoryview(self.buffers[1])
        self.head: wire.Head | None = None
        self.ticks_left = 0.0
        """Until the wall limit. A zygote counts how long it waits: its clock stands still."""
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

        constants = replicas.constants(self.replica)
        build("frozen_clock", lambda: lockdown.try_in_child(lambda: frozen_libc.freeze(constants)))
        frozen = walls["frozen_clock"] == "up"
        if frozen:
            frozen_libc.freeze(constants)
        else:
            prepare.freeze_clock(constants.clock)
        self.address_space = lockdown.address_space() if lockdown.LINUX else 0
        build("namespaces", lockdown.new_namespaces)
        if walls["namespaces"] == "up":
            build("empty_root", lockdown.empty_root)
            self.own_namespace = True
        lockdown.leave_watchdog(self.host)
        build("privileges", lockdown.drop_privileges)
        build("no_new_privileges", lockdown.no_new_privileges)
        build("landlock", lockdown.landlock)
        build("not_dumpable", lockdown.not_dumpable)
        build("die_with_parent", lockdown.die_with_parent)
        lockdown.limit(resource.RLIMIT_CORE, 0)
        lockdown.limit(resource.RLIMIT_NOFILE, 24)
        if frozen and self.replica == replicas.DESCENDING:
            lockdown.trap_cycle_counter()
            build("seccomp", lambda: self._try_seccomp(kill_chance=True))
        else:
            build("seccomp", self._try_seccomp)
        return walls

    def _try_seccomp(self, kill_chance: bool = False) -> None:
        seccomp = lockdown.SeccompFilter(kill_chance)
        lockdown.try_in_child(seccomp.install)
        self.filter = seccomp

    # requests

    def serve_one(self) -> None:
        self.head = wire.Head(*wire.REQUEST.unpack(self._receive(bytearray(wire.REQUEST.size))))
        self._receive(self.request[: self.head.body])
        self.ticks_left = self.head.wall_s / _TICK_S
        self._limit_memory(self.head.memory)
        result_fd, pids = self._start_tests() if self.head.mode == wire.TESTS else self._start()
        self._wipe(0, self.head.body)
        state, size = self._collect(result_fd, pids)
        os.close(result_fd)
        state, status, cpu_s = self._reap(pids, state)
        sent = size if state == wire.DONE else 0
        self.send(wire.REPLY.pack(self.head.serial, state, status, cpu_s, sent), self.reply[:sent])
        self._wipe(1, size)

    def rehearse(self, frame: bytes) -> None:
        """Carry out a request of our own in this process."""
        self.head = wire.Head(*wire.REQUEST.unpack_from(frame))
        self.request[: self.head.body] = frame[wire.REQUEST.size :]
        lines: list[bytes] = []
        child.carry_out(self._hand_over(lines.append), lines.append)

    def _wipe(self, buffer: int, size: int) -> None:
        """Give the pages back: zeros would have to be copied by every fork."""
        if size:
            self.buffers[buffer].madvise(mmap.MADV_DONTNEED, 0, size)

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

    def _start(self) -> tuple[int, list[int]]:
        result_read, result_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._confine(close=[result_read])
            if replicas.layout(self.replica) == replicas.ASCENDING:
                prepare.fill_holes()
            write = child.make_writer(result_write)
            child.run(self._hand_over(write), write)
        os.close(result_write)
        return result_read, [pid]

    def _start_tests(self) -> tuple[int, list[int]]:
        """Two children: the program, and the tests that call it. Only the tests can write a
        result."""
        result_read, result_write = os.pipe()
        calls_read, calls_write = os.pipe()
        answers_read, answers_write = os.pipe()
        program = os.fork()
        if program == 0:
            self._confine(close=[result_read, result_write, calls_write, answers_read])
            write = child.make_writer(answers_write)
            child.run(self._hand_over(write, calls_read), write)
        os.close(calls_read)
        os.close(answers_write)
        tests = os.fork()
        if tests == 0:
            self._confine(close=[result_read])
            assert self.head is not None
            _, (_, text, *_) = child.read_request(self.request[: self.head.body])
            write = child.make_writer(result_write)
            candidate.run_tests(text, self.head.output, write, calls_write, answers_read)
        for fd in (result_write, calls_write, answers_read):
            os.close(fd)
        return result_read, [program, tests]

    def _hand_over(self, write: child.Write, calls_fd: int = -1) -> child.Work:
        """The child's work. The request leaves this object, and of the tests, which contain the
        expected answers, nothing is decoded where the program runs."""
        assert self.head is not None
        head, self.head, self.ticks_left, self.memory = self.head, None, 0.0, 0
        order, (program, _, *inputs) = child.read_request(
            self.request[: head.body], with_tests=False
        )
        self._wipe(0, head.body)
        if head.mode == wire.TESTS:
            return [candidate.answer_calls(order, program, head.output, calls_fd, write)]
        calls = child.run_script if head.mode == wire.SCRIPT else child.call_program
        return [calls(order, program, inputs, head.output, write)]

    def _confine(self, close: list[int]) -> None:
        """The first thing a child does: close what it must not have, set its limits and its timer,
        and install the filter last. If any of this fails, the child exits."""
        head = self.head
        try:
            assert head is not None
            for fd in (self.host, *close):
                os.close(fd)
            if head.mode == wire.SCRIPT:
                child.replace_standard_streams(self.request[: head.body], head.output)
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

    def _collect(self, result_fd: int, pids: list[int]) -> tuple[int, int]:
        """Read what the child writes until it closes its end, up to the wall limit and the output
        limit. Returns the state, and how much of the buffer was used."""
        assert self.head is not None
        size, max_bytes = 0, self.head.reply
        while self._is_ready(result_fd, pids):
            end = min(size + (1 << 20), max_bytes + 1)
            count = os.readv(result_fd, [self.reply[size:end]])
            if not count:
                return wire.DONE, size
            size += count
            if size > max_bytes:
                return wire.TOO_MUCH, size
        return wire.WALL, size

    def _is_ready(self, fd: int, pids: list[int]) -> bool:
        """Wait until there is something to read. False at the wall limit, or if the children have
        used no CPU time for a second: they wait for each other."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        idle_s, before = 0.0, -1.0
        while not poll.poll(_TICK_S * 1000):
            self.ticks_left -= 1
            now = _cpu_seconds(pids)
            idle_s, before = idle_s + _TICK_S if now == before else 0.0, now
            if idle_s >= 1 or self.ticks_left <= 0:
                return False
        return True

    def _reap(self, pids: list[int], state: int) -> tuple[int, int, float]:
        """Wait for every child, killing those that do not exit: the state, the first wait status
        that is not ours, and the CPU time. A child that has closed its pipe is about to exit, and
        has until the wall limit to do so."""
        first_status, cpu_s = 0, 0.0
        for pid in pids:
            if state == wire.DONE and not self._exits(pid):
                state = wire.WALL
            if state != wire.DONE:
                os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            first_status = first_status or (status if state == wire.DONE else 0)
            cpu_s += usage.ru_utime + usage.ru_stime
        return state, first_status, cpu_s

    def _exits(self, pid: int) -> bool:
        try:
            pidfd = os.pidfd_open(pid)
        except (OSError, AttributeError):  # before Linux 5.3
            while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                self.ticks_left -= 0.001 / _TICK_S
                if self.ticks_left <= 0:
                    return False
                select.poll().poll(1)
            return True
        try:
            return self._is_ready(pidfd, [pid])
        finally:
            os.close(pidfd)


_TICK_S = 0.1


def _cpu_seconds(pids: list[int]) -> float:
    try:
        return sum(map(lockdown.cpu_seconds, pids))
    except (OSError, KeyError):  # not on this system: the wall limit alone holds
        return -2.0


if __name__ == "__main__":
    main()
