"""What a zygote does before it serves: import the standard library, warm up, and leave no trace of
itself."""

import bisect
import builtins
import contextlib
import ctypes
import importlib
import os
import sys
import time
import types
from collections.abc import Callable
from typing import Any

MODULES = """
    __future__ _strptime abc array ast base64 binascii bisect calendar cmath codecs collections
    collections.abc contextlib contextvars copy csv ctypes dataclasses datetime decimal difflib enum
    errno fnmatch fractions functools gc graphlib hashlib heapq importlib.util inspect io itertools
    json keyword math numbers operator os pprint queue random re reprlib secrets signal statistics
    sqlite3 string struct sys textwrap threading time timeit traceback types typing unicodedata uuid
    warnings weakref
    encodings.ascii encodings.latin_1 encodings.utf_8 encodings.utf_8_sig encodings.utf_16
    encodings.utf_16_le encodings.utf_16_be encodings.utf_32 encodings.utf_7 encodings.punycode
    encodings.cp1252 encodings.cp437 encodings.cp1251 encodings.cp850 encodings.iso8859_1
    encodings.iso8859_15 encodings.rot_13 encodings.hex_codec encodings.base64_codec
    encodings.unicode_escape encodings.raw_unicode_escape encodings.koi8_r encodings.shift_jis
    encodings.euc_jp encodings.cp932 encodings.gbk encodings.gb2312 encodings.gb18030 encodings.big5
    encodings.euc_kr
""".split()
"""No file can be opened later, so everything a program may import is imported here. Each module
costs every child, because a fork copies its page tables: modules that could only fail behind the
walls (sockets, processes, files) are left out, and those that such programs have no use for."""

_SAMPLES = (
    """\
import math
from collections import Counter
def f(x, y=2):
    class A:
        def g(self): return x
    try:
        d = {k: [v for v in range(k)] for k in range(5)}
        s = f'{x!r:>5} {1.5:.2f}'
        for c in 'abc':
            d[c] = sorted(s, key=lambda t: -ord(t))
        raise ValueError(s)
    except ValueError as e:
        squares = list(i * i for i in range(9))
        return [str(e), 1.5, {'a': (1,)}, {1, 2}, b'x', None, A().g(), squares, math.gcd(4, 6)]
""",
    """\
def f(x):
    while x > 0:
        x -= 1
    return 1 / 0
""",
    """\
def f(x:
""",
    """\
def f(x):
    return object()
""",
)


def import_modules() -> None:
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import _sitebuiltins

    for name in ("exit", "quit"):  # scripts expect them, and `site` is not imported here
        setattr(builtins, name, _sitebuiltins.Quitter(name, ""))
    import hashlib

    hashlib.sha256(hashlib.md5(b"").digest()).hexdigest()


def warm_up(take_request: Callable[[bytes], None]) -> None:
    """Run what children will run: the first compile in a fork costs 2-3 ms cold, a tenth of that
    warm."""
    from redqueen.config.modules import ALLOWED_MODULES
    from redqueen.sandbox import child, wire
    from redqueen.sandbox.protocol import Job, Limits

    child.snapshot_builtins()
    inputs = "3", "[1, 'a'], {'b': (2.5, None)}"
    for program in _SAMPLES * 4:
        for modules in (None, ALLOWED_MODULES):
            job = Job(program, inputs, stable=True, allowed_modules=modules)
            _, frame = wire.write_request(job, inputs, Limits(), modules is not None, True)
            with contextlib.suppress(SyntaxError):
                take_request(frame)
    sys.modules.pop("program", None)


def keep_code_mapped() -> None:
    """Start children with the interpreter's code in their page tables. A fork does not copy plain
    file mappings, and a child would fault the same code in again, 16 pages at a time; a mapping
    with one private page is copied whole. The read-only parts of a library are joined to its code,
    which turns three mappings into one. If the system forbids it, children are only slower."""
    read_execute, all_rights = 5, 7
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as file:
        mappings = [
            line.split()
            for line in file
            if line.rstrip().endswith(".so") or ".so." in line or "/bin/python" in line
        ]
    for span, rights, *_, path in mappings:
        start, end = (int(address, 16) for address in span.split("-"))
        core = "python" in path.rpartition("/")[2].partition(".cpython")[0] or "/libc.so" in path
        if rights == "r--p":
            libc.mprotect(start, end - start, read_execute)
        elif rights == "r-xp" and core and libc.mprotect(start, end - start, all_rights) == 0:
            ctypes.memmove(start, start, 1)
            libc.mprotect(start, end - start, read_execute)


def freeze_clock(now: float) -> None:
    """Where the clock cannot be frozen below Python: freeze what reads it, under every name that a
    module has bound it to."""
    clocks: dict[str, Any] = {"time": lambda: now, "time_ns": lambda: int(now * 10**9)}
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime"):
        clocks[name] = lambda *_: now / 1000
        clocks[f"{name}_ns"] = lambda *_: int(now * 10**6)
    for name in ("localtime", "gmtime", "ctime"):
        clocks[name] = _with_default(getattr(time, name), now)
    today, strftime, asctime = time.gmtime(now), time.strftime, time.asctime
    clocks["strftime"] = lambda form, when=today: strftime(form, when)
    clocks["asctime"] = lambda when=today: asctime(when)
    frozen = {id(getattr(time, name)): clock for name, clock in clocks.items()}
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in frozen:
                setattr(module, name, frozen[id(value)])
    _freeze_datetime(now)


def answer_fstat() -> None:
    """The C library implements fstat by a call that could also name a path, so the filter denies
    it. Scripts need the size of their standard input, which lseek tells."""

    def fstat(fd: int) -> os.stat_result:
        at = os.lseek(fd, 0, os.SEEK_CUR)
        size = os.lseek(fd, 0, os.SEEK_END)
        os.lseek(fd, at, os.SEEK_SET)
        return os.stat_result((0o100600, 0, 0, 1, 0, 0, size, 0, 0, 0))

    os.fstat = fstat


def _with_default(function: Callable[[Any], Any], now: float) -> Callable[..., Any]:
    return lambda seconds=None: function(now if seconds is None else seconds)


def _freeze_datetime(now: float) -> None:
    """datetime reads the clock in C."""
    import datetime

    from redqueen.sandbox.replicas import patch

    today = classmethod(lambda cls: cls.fromtimestamp(now))
    patch(datetime.date, {"today": today})
    patch(
        datetime.datetime,
        {
            "now": classmethod(lambda cls, tz=None: cls.fromtimestamp(now, tz)),
            "utcnow": classmethod(lambda cls: cls.utcfromtimestamp(now)),
            "today": today,
        },
    )


_ballast: list[object] = []
_address = id  # as it is: one replica has another
_SMALL = 512  # bytes: up to here CPython's own allocator, above it the C library's


class Memory:
    """Where a child's small objects will lie. They have arenas of their own, which nothing has used
    before: so objects made one after the other lie one after the other (a fifth fewer page faults),
    and in the same order in all replicas. Only the last digits of their addresses differ, on which
    the order of a small set depends: the kernel randomises whole pages. (Large objects, such as
    classes, are in the C library's heap, most of which the zygote has shifted before its first
    import.)"""

    def __init__(self) -> None:
        """Needs /proc, and uses up what the arenas in use have left."""
        with open("/proc/self/maps") as file:
            spans = [line.split()[0].split("-") for line in file]
        self.old = sorted((int(end, 16), int(start, 16)) for start, end in spans)
        self.old.append((1 << 64, 1 << 64))
        self._use_up(_SMALL)

    def start_afresh(self, layout: int) -> None:
        """Memory freed after this would be used first."""
        for size in range(3 * _SMALL, _SMALL, -16):
            self._fill_gaps(size)
        for size in (16, *range(48, _SMALL + 1, 16)):
            self._use_up(size)
            _ballast.extend(_block(size) for _ in range((5 * layout + size // 16) % 11))

    def _use_up(self, size: int) -> None:
        while True:
            _ballast.append(_block(size))
            address = _address(_ballast[-1])
            _, start = self.old[bisect.bisect(self.old, (address, 1 << 64))]
            if address < start:
                return

    def _fill_gaps(self, size: int) -> None:
        """Of the C library's heap: until two objects, each with a header, are adjacent."""
        before = 0
        for _ in range(5_000):
            _ballast.append(_block(size))
            address = _address(_ballast[-1])
            if address == before + size + 16:
                return
            before = address


_SIZES = [size for size in range(48 - 33, _SMALL - 32, 16) for _ in range(12)]


def fill_holes() -> None:
    """In a child: take the places of objects that the zygote made and freed while it served. Their
    order depends on what it served."""
    _ballast.append([bytes(size) for size in _SIZES] + [object() for _ in range(12)])


def _block(size: int) -> object:
    return object() if size == 16 else bytes(size - 33)


def forget_harness() -> None:
    """Leave nothing of ours for a program to import."""
    _ballast.append(sys.modules["__main__"])
    sys.modules["__main__"] = types.ModuleType("__main__")
    for name in [name for name in sys.modules if name.partition(".")[0] == "redqueen"]:
        del sys.modules[name]
