"""Chance, circumstance and leaks: what a result may not depend on shows as a difference between
replicas, for certain where it can be arranged."""

import logging
import os
import sys
import time
from pathlib import Path

import pytest

from redqueen.cli.bench.sandbox import find_descendants
from redqueen.config.sandbox import SandboxConfig
from redqueen.sandbox import Job, Limits, Outcome
from redqueen.sandbox.pool import SandboxPool

WORDS = [f"{chr(97 + n % 26)}{chr(97 + n * 7 % 26)}{n}" for n in range(48)]


def stable(pool: SandboxPool, program: str, *inputs: str) -> Outcome:
    return pool.run([Job(program, inputs or ("0",), stable=True)])[0]


@pytest.mark.parametrize(
    "program",
    [
        "def f(a): return list({a, 'q' + a})",
        "def f(a): return {a, 'q' + a}.pop()",
        "def f(a): return list(dict.fromkeys(frozenset([a, 'q' + a])))",
        "def f(a): return list({a, 'q' + a, 'z' + a})[1]",
        "def f(a): return list({(a, 1), ('q' + a, 2)})",
        "def f(a): return [*{(1, (2, (3, (4, (5, c))))) for c in (a, 'q' + a)}]",
        "def f(a): return [sorted(s) for s in {frozenset(a), frozenset('Q' + a)}]",
        "class A:\n    def __init__(self, n): self.n = n\ndef f(a): return [o.n for o in {A(a), A('q' + a)}]",
        "class A:\n    pass\ndef f(a):\n    j = [c * 3 for c in a * 50]\n    del j[::2]\n    o = [A() for _ in a]\n    return o.index({*o}.pop())",
        "def f(a): return [g() for g in {lambda: 0, lambda: a}]",
        "def f(a): return hash(a) % 2",
        "def f(a): return a.__hash__() % 2",
        "def f(a): return getattr(a, '__ha' + 'sh__')() % 2",
    ],
)
def test_of_48_programs_that_look_at_chance_none_passes(pool: SandboxPool, program: str) -> None:
    outcomes = pool.run([Job(program, (repr(word),), stable=True) for word in WORDS])
    assert {outcome.kind for outcome in outcomes} == {"unstable"}


def test_sets_whose_order_does_not_show_are_no_chance(pool: SandboxPool) -> None:
    program = "def f(words):\n    seen = set(words)\n    return sorted(seen), len(seen), seen, sum(len(w) for w in seen), list({3, 1, 2})"
    assert stable(pool, program, "['b', 'a', 'b']").values == (
        "(['a', 'b'], 2, {'a', 'b'}, 2, [1, 2, 3])",
    )


def test_a_set_that_changes_while_it_is_walked_is_noticed_in_every_replica(
    pool: SandboxPool,
) -> None:
    outcome = stable(pool, "def f(x):\n    s = {'a', 'b'}\n    for c in s: s.add(c + 'x')")
    assert (outcome.kind, outcome.detail) == ("error", "RuntimeError")


def test_module_state_is_fresh_for_every_input(pool: SandboxPool) -> None:
    """On ten inputs in a row the fifth call is special, wherever the inputs stand."""
    program = (
        "import math\ndef f(x):\n    math.n = getattr(math, 'n', 0) + 1\n    return math.n % 5 == 0"
    )
    assert stable(pool, program, *map(str, range(10))).kind == "unstable"
    honest = "import math\ndef f(x): return math.isqrt(x)"
    assert stable(pool, honest, "0", "4", "9").values == ("0", "2", "3")


def test_the_jury_is_called_for_programs_that_touch_chance_and_only_for_them() -> None:
    with SandboxPool(SandboxConfig(workers=1)) as pool:
        assert stable(pool, "def f(x): return x").values == ("0",)
        assert pool.jury is None
        jobs = [Job("def f(x): return id(x) == id(x), x", (str(n),), stable=True) for n in range(5)]
        assert [outcome.values for outcome in pool.run(jobs)] == [
            (f"(True, {n})",) for n in range(5)
        ]
        assert pool.jury is not None


CLOCKS = """
import ctypes, datetime, queue, threading, time, timeit
def f(x):
    a = [time.time(), queue.time(), threading._time(), timeit.default_timer(), datetime.datetime.now()]
    sum(range(20_000))
    return a == [time.time(), queue.time(), threading._time(), timeit.default_timer(), datetime.datetime.now()]
"""


@pytest.mark.slow
@pytest.mark.parametrize("without", [(), ("frozen_clock",)])
def test_every_clock_stands_still_and_differs_between_replicas(without: tuple[str, ...]) -> None:
    with SandboxPool(SandboxConfig(workers=1, without=without)) as pool:
        assert pool.walls["frozen_clock"].startswith("down" if without else "up")
        assert stable(pool, CLOCKS).values == ("True",)
        for clock in (
            "time.time()",
            "timeit.default_timer()",
            "threading._time()",
            "datetime.date.today().year",
        ):
            program = f"import datetime, threading, time, timeit\ndef f(x): return {clock}"
            assert stable(pool, program).kind == "unstable", clock


FRAMES = """
import sys
def f(secret):
    frame, seen = sys._getframe(1), []
    while frame:
        for name, value in frame.f_locals.items():
            if name in ('head', 'order', 'inputs', 'body', 'request') or 'cpu_s' in dir(value):
                seen.append(name)
            if hasattr(value, 'request'):
                seen += [str(value.head)] * (value.head is not None)
                seen += ['request'] * any(bytes(value.request[:5000]))
        frame = frame.f_back
    return seen
"""


@pytest.mark.parametrize("mode", ["call", "tests"])
def test_nothing_of_the_job_is_in_the_frames_above_the_program(
    pool: SandboxPool, mode: str
) -> None:
    if mode == "call":
        assert stable(pool, FRAMES, "'x'").values == ("[]",)
    else:
        job = Job(FRAMES, mode="tests", tests="assert candidate('x') == []")
        assert pool.run([job])[0].values == ("True",)


def test_no_path_of_the_machine_is_in_what_a_program_can_reach(pool: SandboxPool) -> None:
    program = """
import gc, os, sys, types
def f(paths):
    texts = [repr(vars(module)) for module in list(sys.modules.values()) if isinstance(module, types.ModuleType) and module.__name__ != 'program']
    frame = sys._getframe()
    while frame:
        texts.append(frame.f_code.co_filename)
        frame = frame.f_back
    return [path for path in paths if any(path in text for text in texts)]
"""
    stdlib, package = str(Path(os.__file__).parent), str(Path(__file__).parents[2])
    paths = repr([stdlib, sys.executable, package])
    assert stable(pool, program, paths).values == ("[]",)


def count_resident_pages() -> int:
    return sum(
        int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        for pid in find_descendants(os.getpid())
    )


def test_a_flood_leaves_no_memory_behind() -> None:
    with SandboxPool(SandboxConfig(workers=1)) as pool:
        before = count_resident_pages()
        flood = Job("def f(): return 'x' * 30_000_000", limits=Limits(10, 1024, 32 * 1024))
        assert pool.run([flood])[0].kind == "value"
        assert count_resident_pages() - before < 1000  # 4 MB


def test_a_program_that_waits_for_its_own_tests_does_not_hold_its_worker(pool: SandboxPool) -> None:
    program = "import os\ndef g(x):\n    for fd in range(3, 24):\n        try: os.read(fd, 1)\n        except OSError: pass"
    start = time.monotonic()
    outcome = pool.run(
        [Job(program, mode="tests", entry="g", tests="candidate(1)", limits=Limits(30))]
    )[0]
    assert outcome.kind == "timeout"
    assert time.monotonic() - start < 10  # 1 s on a quiet machine; the wall limit would be 300


def test_fewer_programs_run_at_a_time_where_memory_is_short(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        SandboxPool(SandboxConfig(workers=2, memory_mb=400)) as pool,
    ):
        pool.most_in_flight = 0
        jobs = [Job("def f(x): return x", (str(n),)) for n in range(6)]  # 256 MiB each
        assert [outcome.values[0] for outcome in pool.run(jobs)] == list("012345")
        assert pool.most_in_flight == 1
    assert caplog.text.count("sandbox.memory_mb") == 1
