"""The walls, with ctypes and the standard library alone: seccomp, Landlock, namespaces,
credentials, limits.

Each function raises OSError if its wall cannot be built; the caller decides what that means. For
Linux on x86-64 and arm64.
"""

import contextlib
import ctypes
import os
import platform
import resource
import select
import signal
import struct
import sys
from collections.abc import Callable

MACHINE = platform.machine()
LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)

# system calls

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# x86-64 accepts x32 calls under the same architecture word: they would bypass the list
X32_BIT = 0x40000000

SYSCALLS: dict[str, dict[str, int]] = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10,
        "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28, "exit": 60, "exit_group": 231,
    },
    "aarch64": {
        "read": 63, "write": 64, "close": 57, "fstat": 80, "lseek": 62, "mmap": 222,
        "mprotect": 226, "munmap": 215, "brk": 214, "mremap": 216, "madvise": 233, "exit": 93,
        "exit_group": 94,
    },
}  # fmt: skip
"""All that a fully imported CPython needs to compute and to write its result. Left out on purpose:
anything that opens, connects, starts, signals or waits. No futex: in a process that cannot start
threads, waiting on a lock would never end; denied, it fails at once. No rt_sigreturn: no signal
handler ever runs here, and a forged signal frame could block the signal of the CPU timer."""

CHANCE: dict[str, dict[str, int]] = {
    "x86_64": {
        "getpid": 39, "gettid": 186, "clock_gettime": 228, "clock_getres": 229, "getrandom": 318,
        "rseq": 334,
    },
    "aarch64": {
        "getpid": 172, "gettid": 178, "clock_gettime": 113, "clock_getres": 114, "getrandom": 278,
        "rseq": 293,
    },
}  # fmt: skip
"""Calls whose result is never the same twice. They fail like all that is not listed, and kill where
the filter is told so."""

_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, DENY, KILL = 0x7FFF0000, 0x00050001, 0x80000000  # DENY is EPERM


def seccomp_program(
    machine: str = MACHINE, kill_chance: bool = False
) -> list[tuple[int, int, int, int]]:
    """The filter as BPF instructions (code, jump if true, jump if false, operand): listed calls
    pass, calls of a foreign architecture kill, the rest fail with EPERM."""
    if machine not in SYSCALLS:
        raise OSError(
            f"no seccomp filter for the {machine} architecture (x86_64 and aarch64 have one)"
        )
    arch_at, number_at = 4, 0  # offsets in struct seccomp_data
    program = [
        (_LOAD, 0, 0, arch_at),
        (_JUMP_EQ, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, number_at),
    ]
    if machine == "x86_64":
        program += [(_JUMP_GE, 0, 1, X32_BIT), (_RETURN, 0, 0, KILL)]
    for number in SYSCALLS[machine].values():
        program += [(_JUMP_EQ, 0, 1, number), (_RETURN, 0, 0, ALLOW)]
    if kill_chance:
        for number in CHANCE[machine].values():
            program += [(_JUMP_EQ, 0, 1, number), (_RETURN, 0, 0, KILL)]
    return [*program, (_RETURN, 0, 0, DENY)]


class SeccompFilter:
    """The compiled filter; `install` is irreversible, for the calling process and its children."""

    def __init__(self, kill_chance: bool = False) -> None:
        program = seccomp_program(kill_chance=kill_chance)
        code = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
        self._code = ctypes.create_string_buffer(code, len(code))
        self._header = ctypes.create_string_buffer(
            struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(self._code)), 16
        )

    def install(self) -> None:
        # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        _prctl(22, 2, ctypes.addressof(self._header), "seccomp")


def _prctl(option: int, argument: int, argument2: int = 0, what: str = "prctl") -> None:
    if _libc.prctl(
        option,
        ctypes.c_ulong(argument),
        ctypes.c_ulong(argument2),
        ctypes.c_ulong(0),
        ctypes.c_ulong(0),
    ):
        raise OSError(ctypes.get_errno(), what)


def no_new_privileges() -> None:
    _prctl(38, 1, what="no_new_privs")


def not_dumpable() -> None:
    """Nobody but root may trace this process or read its /proc entries."""
    _prctl(4, 0, what="dumpable")


def die_with_parent() -> None:
    """SIGKILL when the thread that started this process ends. Call it after the last change of
    credentials, which clears it."""
    _prctl(1, signal.SIGKILL, what="pdeathsig")


def trap_cycle_counter() -> None:
    """Reading the processor's cycle counter ends the process."""
    if MACHINE == "x86_64":
        _prctl(26, 2, what="tsc")


# Landlock


def landlock() -> int:
    """Deny all file access, TCP bind and connect, abstract sockets and signals to the outside, as
    far as this kernel's Landlock goes; returns its version."""
    create, restrict = 444, 446
    abi: int = _libc.syscall(create, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        raise OSError(ctypes.get_errno(), "landlock")
    files = (1 << 13) - 1 | (abi >= 2) << 13 | (abi >= 3) << 14 | (abi >= 5) << 15
    network = 3 if abi >= 4 else 0
    scoped = 3 if abi >= 6 else 0
    rules = ctypes.create_string_buffer(struct.pack("<QQQ", files, network, scoped), 24)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _libc.syscall(create, rules, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    try:
        if _libc.syscall(restrict, ruleset, 0):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return abi


# namespaces

_MOUNTS, _CGROUP, _UTS, _IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
_USER, _PID, _NET = 0x10000000, 0x20000000, 0x40000000
NOBODY = 65534


def new_namespaces() -> None:
    """New namespaces for processes, network, mounts, IPC, host name, and for users unless run as
    root. The caller's next fork is process 1 of the new pid namespace; once that one exits, the
    namespace takes no more processes."""
    namespaces = _MOUNTS | _CGROUP | _UTS | _IPC | _PID | _NET
    if os.geteuid() == 0 and _libc.unshare(namespaces) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(namespaces | _USER):
        raise OSError(ctypes.get_errno(), "unshare")
    with contextlib.suppress(OSError):  # unmapped, the process is nobody anyway
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{NOBODY} {user} 1"),
            ("gid_map", f"{NOBODY} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)


def empty_root() -> None:
    """Enter an empty root folder, in the process's own mount namespace. What was open stays open;
    nothing else can be reached."""
    private_recursive = 0x4000 | 0x40000
    locked = 0x1 | 0x2 | 0x4 | 0x8  # ro, nosuid, nodev, noexec
    if _libc.mount(b"none", b"/", None, private_recursive, None):
        raise OSError(ctypes.get_errno(), "mount /")
    if _libc.mount(b"none", b"/proc", b"tmpfs", locked, b"size=4k,mode=755"):
        raise OSError(ctypes.get_errno(), "mount tmpfs")
    os.chroot("/proc")
    os.chdir("/")


def drop_privileges() -> None:
    """Give up user, groups and all capabilities."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    version_3 = struct.pack("<Ii", 0x20080522, 0)
    if _libc.syscall({"x86_64": 126, "aarch64": 91}[MACHINE], version_3, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")


# processes


def leave_watchdog(host: int) -> None:
    """Continue in a child, which is process 1 of the new pid namespace if there is one. The
    process left behind kills it, and with it everything it has started, when the trainer is
    gone, even if it is busy."""
    pid = os.fork()
    if pid:
        _wait_for_either(pid, host)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os._exit(0)


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


def try_in_child(wall: Callable[[], object]) -> None:
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


def cpu_seconds(pid: int) -> float:
    """CPU time of a child that has not been waited for: by system call, because a zygote's own
    clocks are frozen."""
    clock, timespec = ~pid << 3 | 2, (ctypes.c_long * 2)()
    if _libc.syscall(CHANCE[MACHINE]["clock_gettime"], ctypes.c_int(clock), timespec):
        raise OSError(ctypes.get_errno(), "clock_gettime")
    return timespec[0] + timespec[1] / 10**9


# limits


def address_space() -> int:
    """Bytes of address space mapped by this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def limit(what: int, soft: int) -> None:
    """Lower a resource limit, hard as well as soft."""
    _, hard = resource.getrlimit(what)
    soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(what, (soft, soft))
