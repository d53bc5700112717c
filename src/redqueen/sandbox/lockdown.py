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
import signal
import struct
import sys

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
        "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28, "getpid": 39, "exit": 60,
        "gettid": 186, "clock_gettime": 228, "clock_getres": 229, "exit_group": 231,
        "getrandom": 318, "rseq": 334,
    },
    "aarch64": {
        "read": 63, "write": 64, "close": 57, "fstat": 80, "lseek": 62, "mmap": 222,
        "mprotect": 226, "munmap": 215, "brk": 214, "mremap": 216, "madvise": 233, "getpid": 172,
        "exit": 93, "gettid": 178, "clock_gettime": 113, "clock_getres": 114, "exit_group": 94,
        "getrandom": 278, "rseq": 293,
    },
}  # fmt: skip
"""All that a fully imported CPython needs to compute and to write its result. Left out on purpose:
anything that opens, connects, starts, signals or waits. No futex: in a process that cannot start
threads, waiting on a lock would never end; denied, it fails at once. No rt_sigreturn: no signal
handler ever runs here, and a forged signal frame could block the signal of the CPU timer. Clock and
getrandom are allowed: the clock can be read without a system call anyway (vDSO), and both show as
`unstable`."""

_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, DENY, KILL = 0x7FFF0000, 0x00050001, 0x80000000  # DENY is EPERM


def seccomp_program(machine: str = MACHINE) -> list[tuple[int, int, int, int]]:
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
    return [*program, (_RETURN, 0, 0, DENY)]


class SeccompFilter:
    """The compiled filter; `install` is irreversible, for the calling process and its children."""

    def __init__(self) -> None:
        code = b"".join(struct.pack("<HBBI", *instruction) for instruction in seccomp_program())
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
