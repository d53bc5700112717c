"""Clock, entropy and process number as constants of a replica, below Python: the functions of the
C library and of the vDSO (the kernel's code in every process) are overwritten in this process's own
copy. Whoever reads the time, through whatever module or by ctypes, reads the frozen one.

For Linux on x86-64; elsewhere, and where the system forbids it, OSError.
"""

import ctypes
import struct
from typing import NamedTuple

from redqueen.sandbox.lockdown import LINUX, MACHINE

_READ_EXECUTE, _ALL_RIGHTS = 5, 7


class Constants(NamedTuple):
    """What this process reads instead of the real thing."""

    clock: float
    """Unix seconds."""
    entropy: int
    """Every byte of what the kernel's generator returns."""
    process: int


def freeze(constants: Constants) -> None:
    """Overwrite the functions, then unmap the pages in which the kernel keeps the time."""
    if not LINUX or MACHINE != "x86_64":
        raise OSError(f"clock and entropy are not frozen below Python on {MACHINE}")
    libc = ctypes.CDLL(None, use_errno=True)
    vdso = ctypes.CDLL("linux-vdso.so.1", mode=4)  # RTLD_NOLOAD: it is there already
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    patches = [*_find(vdso, _vdso_code(constants)), *_find(libc, _libc_code(constants))]
    starts = sorted(address for address, _ in patches)
    ends = sorted(address + len(code) for address, code in patches)
    if any(end > start for start, end in zip(starts[1:], ends, strict=False)):
        raise OSError("the functions that read the clock are too short to be replaced")
    with open("/proc/self/maps") as file:
        mappings = [line.split() for line in file]
    spans = {_span(fields[0]): fields[-1] for fields in mappings}
    for address, code in patches:  # whole mappings: the kernel does not split its own
        start, size = next(span for span in spans if 0 <= address - span[0] < span[1])
        if libc.mprotect(start, size, _ALL_RIGHTS):
            raise OSError(ctypes.get_errno(), "the system forbids to freeze clock and entropy")
        ctypes.memmove(address, code, len(code))
        libc.mprotect(start, size, _READ_EXECUTE)
    for (start, size), name in spans.items():
        if name.startswith("[vvar"):
            libc.munmap(start, size)


def _span(text: str) -> tuple[int, int]:
    start, end = (int(address, 16) for address in text.split("-"))
    return start, end - start


def _find(library: ctypes.CDLL, code: dict[str, bytes]) -> list[tuple[int, bytes]]:
    """The address and the new code of each function that the library has."""
    return [
        (ctypes.cast(library[name], ctypes.c_void_p).value or 0, machine_code)
        for name, machine_code in code.items()
        if hasattr(library, name)
    ]


def _vdso_code(constants: Constants) -> dict[str, bytes]:
    seconds, fraction = divmod(int(constants.clock * 10**9), 10**9)
    first, second = b"\x48\x89\x47", b"\x48\x89\x46"  # mov [rdi + n], rax · mov [rsi + n], rax
    return {
        "__vdso_clock_gettime": _store(second, seconds, fraction) + _RETURN_0,
        "__vdso_gettimeofday": _store(first, seconds, fraction // 1000) + _RETURN_0,
        # test rsi, rsi; je to the end
        "__vdso_clock_getres": b"\x48\x85\xf6\x74\x1c" + _store(second, 0, 1) + _RETURN_0,
        # test rdi, rdi; je over the store
        "__vdso_time": _load(seconds) + b"\x48\x85\xff\x74\x03\x48\x89\x07\xc3",
        # the same for both pointers, with a zero
        "__vdso_getcpu": b"\x31\xc0\x48\x85\xff\x74\x02\x89\x07\x48\x85\xf6\x74\x02\x89\x06\xc3",
        "__vdso_getrandom": b"\x48\xc7\xc0\xff\xff\xff\xff\xc3",  # -EPERM
    }


def _libc_code(constants: Constants) -> dict[str, bytes]:
    # mov al, byte; mov rcx, rsi; rep stosb
    fill = b"\xb0" + bytes([constants.entropy]) + b"\x48\x89\xf1\xf3\xaa"
    process = b"\xb8" + struct.pack("<i", constants.process) + b"\xc3"
    return {
        "getrandom": fill + b"\x48\x89\xf0\xc3",  # mov rax, rsi; ret
        "getentropy": fill + _RETURN_0,
        "getpid": process,
        "gettid": process,
    }


_RETURN_0 = b"\x31\xc0\xc3"


def _load(value: int) -> bytes:
    return b"\x48\xb8" + struct.pack("<q", value)  # mov rax, value


def _store(to: bytes, low: int, high: int) -> bytes:
    """Two 64-bit words, at `to` and behind it."""
    return _load(low) + to + b"\x00" + _load(high) + to + b"\x08"
