"""The seccomp filter, run in a small BPF interpreter for both architectures."""

import ctypes
import platform

import pytest

from redqueen.sandbox.lockdown import (
    ALLOW,
    AUDIT_ARCH,
    CHANCE,
    DENY,
    KILL,
    SYSCALLS,
    seccomp_program,
)

ARM64_EABI32, I386 = 0x40000028, 0x40000003
# From the kernel's own tables (arch/x86/entry/syscalls/syscall_64.tbl and asm-generic/unistd.h):
# what must never pass.
DANGEROUS = {
    "x86_64": {"open": 2, "socket": 41, "clone": 56, "fork": 57, "execve": 59, "kill": 62, "ptrace": 101, "openat": 257, "io_uring_setup": 425, "memfd_create": 319, "prctl": 157, "setitimer": 38, "rt_sigaction": 13},
    "aarch64": {"openat": 56, "socket": 198, "clone": 220, "execve": 221, "kill": 129, "ptrace": 117, "io_uring_setup": 425, "memfd_create": 279, "prctl": 167, "setitimer": 103, "rt_sigaction": 134},
}  # fmt: skip


def verdict(machine: str, arch: int, number: int, kill_chance: bool = False) -> int:
    """What the kernel would do with this call: a BPF interpreter for the four instructions that the
    filter uses."""
    program, at, accumulator = seccomp_program(machine, kill_chance), 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == 0x20:
            accumulator = {0: number, 4: arch}[operand]
        elif code == 0x15:
            at += if_true if accumulator == operand else if_false
        elif code == 0x35:
            at += if_true if accumulator >= operand else if_false
        else:
            assert code == 0x06
            return operand


@pytest.mark.parametrize("machine", sorted(SYSCALLS))
def test_exactly_the_listed_calls_pass(machine: str) -> None:
    passing = {
        number for number in range(1024) if verdict(machine, AUDIT_ARCH[machine], number) == ALLOW
    }
    assert passing == set(SYSCALLS[machine].values())
    assert all(
        verdict(machine, AUDIT_ARCH[machine], number) == DENY
        for number in DANGEROUS[machine].values()
    )


@pytest.mark.parametrize(
    ("machine", "foreign"),
    [
        ("x86_64", I386),
        ("x86_64", AUDIT_ARCH["aarch64"]),
        ("aarch64", ARM64_EABI32),
        ("aarch64", AUDIT_ARCH["x86_64"]),
    ],
)
def test_calls_of_another_architecture_kill(machine: str, foreign: int) -> None:
    assert {verdict(machine, foreign, number) for number in range(512)} == {KILL}


@pytest.mark.parametrize("machine", sorted(CHANCE))
def test_calls_for_chance_are_denied_and_kill_where_that_is_asked_for(machine: str) -> None:
    for kill, expected in ((False, DENY), (True, KILL)):
        assert {
            verdict(machine, AUDIT_ARCH[machine], number, kill)
            for number in CHANCE[machine].values()
        } == {expected}
    assert verdict(machine, AUDIT_ARCH[machine], SYSCALLS[machine]["read"], True) == ALLOW


def test_x32_calls_kill() -> None:
    assert {
        verdict("x86_64", AUDIT_ARCH["x86_64"], 0x40000000 + number) for number in range(600)
    } == {KILL}


def test_the_numbers_are_this_kernels_numbers() -> None:
    """getpid by number gives what getpid gives: the table is that of this machine."""
    import os

    number = CHANCE[platform.machine()]["getpid"]
    assert ctypes.CDLL(None).syscall(number) == os.getpid()


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(OSError, match="riscv64"):
        seccomp_program("riscv64")
