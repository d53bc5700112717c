"""Throughput of the sandbox in programs per second, compared with a fresh interpreter for each
program and with exec in this process.

A fresh interpreter has no walls at all, so the comparison favours it; exec in process is the upper
bound, and no sandbox.
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
from redqueen.cli.console import VisibleConsole, note_others, notes, print_table, progress
from redqueen.cli.options import Json
from redqueen.config.modules import ALLOWED_MODULES
from redqueen.engine.cpu_load import LoadMeter
from redqueen.sandbox import Job, Limits
from redqueen.sandbox.literals import parse_arguments
from redqueen.sandbox.pool import SandboxPool

_ENDLESS = "def f(n):\n    while True:\n        n += 1\n"
_LOOP_LIMIT = Limits(cpu_s=0.25)


def make_jobs(count: int, stable: bool = False, inspected: bool = False) -> list[Job]:
    modules = ALLOWED_MODULES if inspected else None
    return [
        Job(
            *_pick_program(index),
            limits=_LOOP_LIMIT,
            stable=stable,
            allowed_modules=modules,
            count_steps=inspected,
        )
        for index in range(count)
    ]


def _pick_program(index: int) -> tuple[str, tuple[str, ...]]:
    program, arguments = PROGRAMS[index % len(PROGRAMS)]
    return program, (arguments,)


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
        load = LoadMeter()
        time.sleep(_LISTEN_S)  # once programs run, theirs cannot be told from other programs' work
        result: dict[str, Any] = {
            "cores": len(pool.workers),
            "other_programs_cores": round(load.others(), 2),
            "programs": programs,
            "walls": pool.walls,
        }
        with notes.status("measuring") if notes.is_terminal else contextlib.nullcontext():
            rates = _measure_rates(pool, programs)
        result |= {"programs_per_s": rates, "ratios": _compute_ratios(rates)}
        if soak:
            result["soak"] = _soak(pool, soak)
    console = VisibleConsole()
    if as_json:
        console.print(json.dumps(result, indent=1), soft_wrap=True)
    else:
        _show(console, result)
    note_others(result["other_programs_cores"])


_LISTEN_S = 0.5
_ROUNDS = 8


def _measure_rates(pool: SandboxPool, count: int) -> dict[str, float]:
    """Programs per second for each method. The methods take turns in short rounds, so that changes
    in the machine's speed affect all of them alike."""
    share = max(2, count // _ROUNDS)
    plain, checked = make_jobs(share), make_jobs(max(1, share // 3), stable=True)
    verified = make_jobs(max(1, share // 3), stable=True, inspected=True)
    endless = [
        Job(_ENDLESS, ("1",), limits=_LOOP_LIMIT) if index % 20 == 0 else job
        for index, job in enumerate(make_jobs(60))
    ]
    methods: dict[str, tuple[int, Callable[[], object]]] = {
        "sandbox": (len(plain), lambda: pool.run(plain)),
        "sandbox_determinism_checked": (len(checked), lambda: pool.run(checked)),
        "sandbox_verify": (len(verified), lambda: pool.run(verified)),
        "sandbox_5_percent_endless": (len(endless), lambda: pool.run(endless)),
        "fresh_interpreter": (
            max(1, share // 10),
            lambda: _run_fresh(max(1, share // 10), len(pool.workers)),
        ),
        "exec_in_process": (share, lambda: _run_in_process(share)),
    }
    seconds = dict.fromkeys(methods, 0.0)
    pool.run(plain[:20])
    for _ in range(_ROUNDS):
        for name, (_, run) in methods.items():
            start = time.perf_counter()
            run()
            seconds[name] += time.perf_counter() - start
    return {
        name: round(_ROUNDS * programs / seconds[name], 1)
        for name, (programs, _) in methods.items()
    }


def _run_fresh(count: int, workers: int) -> None:
    def run(index: int) -> None:
        program, (arguments,) = _pick_program(index)
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"{program}\nprint(repr(f({arguments})))"],
            check=True,
            stdout=subprocess.PIPE,
        )

    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(run, range(count)))


def _run_in_process(count: int) -> None:
    for index in range(count):
        program, (arguments,) = _pick_program(index)
        namespace: dict[str, Any] = {}
        exec(compile(program, "<bench>", "exec"), namespace)  # one of our own PROGRAMS
        repr(namespace["f"](*parse_arguments(arguments)))


def _compute_ratios(rates: dict[str, float]) -> dict[str, float]:
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
    """Run many jobs in a row, honest and hostile, and measure what they leave behind."""
    hostile = [
        "def f(x):\n    return f(x)",
        "def f(x):\n    raise ValueError",
        "def f(x):\n    return object()",
        "import os\ndef f(x):\n    os.abort()",
        "def f(",
    ]
    batch = make_jobs(95) + [Job(program, ("1",)) for program in hostile]
    pool.run(batch * 5)
    before = measure_footprint()
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
        "after": measure_footprint(),
    }


def measure_footprint() -> dict[str, float]:
    """What this process and its sandbox hold."""
    tree = find_descendants(os.getpid())
    return {
        "trainer_mb": _resident_mb(os.getpid()),
        "largest_zygote_mb": max(map(_resident_mb, tree)),
        "processes": len(tree),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "temporary_files": len(list(Path(tempfile.gettempdir()).iterdir())),
    }


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def find_descendants(pid: int) -> list[int]:
    """Process ids of all children, grandchildren and so on."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    return [descendant for child in children for descendant in (child, *find_descendants(child))]


def _show(console: Console, result: dict[str, Any]) -> None:
    rates, ratios = result["programs_per_s"], result["ratios"]
    table = Table(title=f"programs per second, {result['cores']} cores, all in one run")
    table.add_column("method")
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
    print_table(table, console)
    console.print(
        f"{ratios['sandbox_over_fresh_interpreter']:.1f}x a fresh interpreter; "
        f"{ratios['lost_to_5_percent_endless']:.0%} lost to 5 % endless programs"
    )
    if "soak" in result:
        console.print_json(json.dumps(result["soak"]))
