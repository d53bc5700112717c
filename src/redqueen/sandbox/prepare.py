"""What a zygote does before it locks itself down: import the standard library, warm up, and freeze
clock and random state.

The three replicas of a zygote differ in everything that a deterministic program must not depend on:
hash seed (set at exec), addresses, process numbers, random state and clock. So nondeterminism shows
as a difference between them, while each replica repeats itself.
"""

import builtins
import contextlib
import ctypes
import gc
import importlib
import os
import random
import sys
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

MODULES = """
    __future__ _strptime abc array ast base64 binascii bisect calendar cmath codecs collections
    collections.abc contextlib contextvars copy csv ctypes dataclasses datetime decimal difflib enum
    errno fnmatch fractions functools gc graphlib hashlib heapq importlib.util inspect io itertools
    json keyword math numbers operator os pprint queue random re reprlib secrets signal statistics
    string struct sys textwrap threading time timeit traceback types typing unicodedata uuid
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

CLOCKS = (1_000_000_003.125, 1_800_012_347.375, 4_200_345_678.625)
"""The frozen time of each replica in Unix seconds: 2001, 2027 and 2103, so that most time bombs go
off in one of them. Their last digits differ, too."""

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


def warm_up() -> None:
    """Run what children will run: the first compile in a fork costs 2-3 ms cold, a tenth of that
    warm."""
    from redqueen.config.modules import ALLOWED_MODULES
    from redqueen.sandbox import child, wire

    child.snapshot_builtins()
    for program in _SAMPLES * 4:
        for allowed in (None, sorted(ALLOWED_MODULES)):
            order = wire.Order("f", False, bool(allowed), allowed, [], 0)
            lines: list[bytes] = []
            try:
                code = child.compile_program(order, program, lines.append)
            except SyntaxError:
                continue
            if code is not None:
                child.run_calls(
                    order, code, ["3", "[1, 'a'], {'b': (2.5, None)}"], 65536, lines.append
                )
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


def freeze_environment(replica: int) -> None:
    """Freeze clock and random state at this replica's values, and hide how this process was
    started."""
    _freeze_clock(CLOCKS[replica])
    random.seed(CLOCKS[replica])
    _shift_process_numbers((0, 2, 1)[replica])
    _answer_fstat()
    os.environ.clear()
    sys.argv, sys.orig_argv = [""], [""]
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")


def _freeze_clock(now: float) -> None:
    time.time = lambda: now
    time.time_ns = lambda: int(now * 10**9)
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime"):
        setattr(time, name, lambda *_: now / 1000)
        setattr(time, f"{name}_ns", lambda *_: int(now * 10**6))
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _with_default(getattr(time, name), now))
    today, strftime, asctime = time.gmtime(now), time.strftime, time.asctime
    time.strftime = lambda form, when=today: strftime(form, when)
    time.asctime = lambda when=today: asctime(when)
    _freeze_datetime(now)


def _answer_fstat() -> None:
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
    """datetime reads the clock in C, so its methods are replaced in the type's own dictionary."""
    import datetime

    replacements: dict[type, dict[str, Any]] = {
        datetime.datetime: {
            "now": classmethod(lambda cls, tz=None: cls.fromtimestamp(now, tz)),
            "utcnow": classmethod(lambda cls: cls.utcfromtimestamp(now)),
            "today": classmethod(lambda cls: cls.fromtimestamp(now)),
        },
        datetime.date: {"today": classmethod(lambda cls: cls.fromtimestamp(now))},
    }
    for kind, methods in replacements.items():
        gc.get_referents(kind.__dict__)[0].update(methods)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


_ballast: list[object] = []


def shift_addresses(replica: int) -> None:
    """Make the low digits of addresses differ between replicas: the kernel randomises whole pages
    only, and the order of a small set of objects depends on the last digits. The gaps that start-up
    left are filled, so that a child's objects are contiguous (a fifth fewer page faults), and they
    start at a different offset in each replica. (Objects too large for that, such as classes, are
    in the C library's heap, most of which the zygote has shifted before its first import.)"""
    for size in (16, *range(48, 513, 16)):
        _fill_gaps(size)
        _ballast.extend(_block(size) for _ in range(1 + (5 * replica + size // 16) % 11))


def _block(size: int) -> object:
    return object() if size == 16 else bytes(size - 33)


def _fill_gaps(size: int) -> None:
    """Allocate small objects of one size until they are adjacent: then they come from a fresh
    pool."""
    run, before = 0, _block(size)
    for _ in range(50_000):
        block = _block(size)
        run = run + 1 if id(block) - id(before) == size else 0
        _ballast.append(before)
        before = block
        if run > 6:
            return


def _shift_process_numbers(count: int) -> None:
    """In a pid namespace, numbers count up from one. The second replica stays ahead of the third:
    it never runs fewer children."""
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)


def forget_harness() -> None:
    """Leave nothing of ours for a program to import."""
    _ballast.append(sys.modules["__main__"])
    sys.modules["__main__"] = types.ModuleType("__main__")
    for name in [name for name in sys.modules if name.partition(".")[0] == "redqueen"]:
        del sys.modules[name]
