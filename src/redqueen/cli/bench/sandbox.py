"""How fast the sandbox is: programs per second beside a fresh interpreter for each program, and
beside exec in this process.

The fresh interpreter has no walls at all, so the comparison flatters it; exec in process is the
upper bound, and no sandbox.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.bench.programs import PROGRAMS
from redqueen.cli.console import notes, progress
from redqueen.cli.options import Json
from redqueen.config.modules import ALLOWED_MODULES
from redqueen.sandbox import Job, Limits
from redqueen.sandbox.literals import parse_arguments
from redqueen.sandbox.pool import SandboxPool

_ENDLESS = "def f(n):\n    while True:\n        n += 1\n"
_LOOP_LIMIT = Limits(cpu_s=0.25)


def jobs(count: int, stable: bool = False, inspected: bool = False) -> list[Job]:
    modules = ALLOWED_MODULES if inspected else None
    return [
        Job(
            *_as_job(index),
            limits=_LOOP_LIMIT,
            stable=stable,
            allowed_modules=modules,
            count_steps=inspected,
        )
        for index in range(count)
    ]


def _as_job(index: int) -> tuple[str, tuple[str, ...]]:
    program, given = PROGRAMS[index % len(PROGRAMS)]
    return program, (given,)


def sandbox(
    programs: Annotated[
        int, typer.Option(min=20, help="Programs to run in each row of the table.")
    ] = 2000,
    soak: Annotated[
        int, typer.Option(min=0, help="Also run this many jobs in a row and look for leaks.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Programs per second through the sandbox, beside a fresh interpreter for each program and
    beside plain exec.
    """
    with SandboxPool() as pool:
        result: dict[str, Any] = {
            "cores": len(pool.workers),
            "programs": programs,
            "walls": pool.walls,
        }
        with notes.status("measuring") if notes.is_terminal else contextlib.nullcontext():
            rates = _rates(pool, programs)
        result |= {"programs_per_s": rates, "ratios": _ratios(rates)}
        if soak:
            result["soak"] = _soak(pool, soak)
    console = Console(highlight=False)
    if as_json:
        console.print(json.dumps(result, indent=1), soft_wrap=True, markup=False)
    else:
        _show(console, result)


_ROUNDS = 8


def _rates(pool: SandboxPool, count: int) -> dict[str, float]:
    """Programs per second for each way. The ways take turns in short rounds, so that a machine that
    is faster at one moment than at the next is so for all of them."""
    share = max(2, count // _ROUNDS)
    plain, checked = jobs(share), jobs(max(1, share // 3), stable=True)
    verified = jobs(max(1, share // 3), stable=True, inspected=True)
    endless = [
        Job(_ENDLESS, ("1",), limits=_LOOP_LIMIT) if index % 20 == 0 else job
        for index, job in enumerate(jobs(60))
    ]
    ways: dict[str, tuple[int, Callable[[], object]]] = {
        "sandbox": (len(plain), lambda: pool.run(plain)),
        "sandbox_determinism_checked": (len(checked), lambda: pool.run(checked)),
        "sandbox_verify": (len(verified), lambda: pool.run(verified)),
        "sandbox_5_percent_endless": (len(endless), lambda: pool.run(endless)),
        "fresh_interpreter": (
            max(1, share // 10),
            lambda: _fresh(max(1, share // 10), len(pool.workers)),
        ),
        "exec_in_process": (share, lambda: _exec(share)),
    }
    seconds = dict.fromkeys(ways, 0.0)
    pool.run(plain[:20])
    for _ in range(_ROUNDS):
        for name, (_, work) in ways.items():
            start = time.perf_counter()
            work()
            seconds[name] += time.perf_counter() - start
    return {
        name: round(_ROUNDS * programs / seconds[name], 1) for name, (programs, _) in ways.items()
    }


def _fresh(count: int, workers: int) -> None:
    def one(index: int) -> None:
        program, (given,) = _as_job(index)
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"{program}\nprint(repr(f({given})))"],
            check=True,
            stdout=subprocess.PIPE,
        )

    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(one, range(count)))


def _exec(count: int) -> None:
    for index in range(count):
        program, (given,) = _as_job(index)
        namespace: dict[str, Any] = {}
        exec(compile(program, "<bench>", "exec"), namespace)  # our own programs, listed above
        repr(namespace["f"](*parse_arguments(given)))


def _ratios(rates: dict[str, float]) -> dict[str, float]:
    return {
        "sandbox_over_fresh_interpreter": round(rates["sandbox"] / rates["fresh_interpreter"], 2),
        "sandbox_over_exec": round(rates["sandbox"] / rates["exec_in_process"], 4),
        "lost_to_determinism_check": round(
            1 - rates["sandbox_determinism_checked"] / rates["sandbox"], 3
        ),
        "lost_to_5_percent_endless": round(
            1 - rates["sandbox_5_percent_endless"] / rates["sandbox"], 3
        ),
    }


def _soak(pool: SandboxPool, count: int) -> dict[str, Any]:
    """Many jobs in a row, honest and hostile, and what they left behind."""
    hostile = [
        "def f(x):\n    return f(x)",
        "def f(x):\n    raise ValueError",
        "def f(x):\n    return object()",
        "import os\ndef f(x):\n    os.abort()",
        "def f(",
    ]
    batch = jobs(95) + [Job(program, ("1",)) for program in hostile]
    pool.run(batch * 5)
    before = _footprint(pool)
    start = time.perf_counter()
    with progress() as bar:
        task = bar.add_task("soaking", total=count)
        for _ in range(count // len(batch)):
            pool.run(batch)
            bar.advance(task, len(batch))
    seconds = time.perf_counter() - start
    return {
        "jobs": count // len(batch) * len(batch),
        "seconds": round(seconds, 1),
        "restarts": pool.restarts,
        "before": before,
        "after": _footprint(pool),
    }


def _footprint(pool: SandboxPool) -> dict[str, float]:
    tree = _descendants(os.getpid())
    zygotes = [_resident_mb(pid) for pid in tree]
    return {
        "trainer_mb": _resident_mb(os.getpid()),
        "largest_zygote_mb": max(zygotes),
        "processes": len(tree),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "temporary_files": len(list(Path(tempfile.gettempdir()).iterdir())),
    }


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    return [descendant for child in children for descendant in (child, *_descendants(child))]


def _show(console: Console, result: dict[str, Any]) -> None:
    rates, ratios = result["programs_per_s"], result["ratios"]
    table = Table(title=f"programs per second, {result['cores']} cores, all in one run")
    table.add_column("way")
    table.add_column("programs/s", justify="right")
    table.add_column("x fresh interpreter", justify="right")
    for name, title in (
        ("sandbox", "sandbox"),
        ("sandbox_determinism_checked", "sandbox, determinism checked in three processes"),
        ("sandbox_verify", "the same with static checks, metrics and steps (what verify does)"),
        (
            "sandbox_5_percent_endless",
            f"sandbox, 5 % endless programs at {_LOOP_LIMIT.cpu_s} s CPU",
        ),
        ("fresh_interpreter", "a fresh `python -I -S` for each program, no walls"),
        ("exec_in_process", "exec in this process, one core, no walls (upper bound)"),
    ):
        table.add_row(
            title, f"{rates[name]:,.0f}", f"{rates[name] / rates['fresh_interpreter']:.2f}x"
        )
    console.print(table)
    console.print(
        f"{ratios['sandbox_over_fresh_interpreter']:.1f}x a fresh interpreter; "
        f"{ratios['lost_to_5_percent_endless']:.0%} lost to 5 % endless programs"
    )
    if "soak" in result:
        console.print_json(json.dumps(result["soak"]))
