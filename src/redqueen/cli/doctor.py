"""`redqueen doctor`: what this machine can do, and what to install where it cannot."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from redqueen import __version__
from redqueen.cli.options import Json
from redqueen.errors import DataError, SandboxError

BENCHMARKS = (
    "aime24.jsonl", "aime25.jsonl", "amc23.jsonl", "cruxeval.jsonl", "gsm8k_test.jsonl", "humaneval.jsonl", "humaneval_plus.jsonl.gz",
    "humaneval_plus_mini.jsonl.gz",
    "livecodebench_v1_public.jsonl", "math500.jsonl", "mbpp.jsonl", "mbpp_plus.jsonl.gz", "minerva_math.jsonl", "olympiadbench.jsonl.gz",
)  # fmt: skip
EXTRAS = ("peft", "gguf", "datasets", "vllm", "ray")


def doctor(as_json: Json = False) -> None:
    """Say what this machine can do: Python, torch, GPU, sandbox walls, data, optional extras."""
    report = examine()
    show(report, as_json)
    raise typer.Exit(0 if report.ready else 1)


@dataclass(frozen=True, slots=True)
class Finding:
    topic: str
    name: str
    ok: bool
    detail: str
    needed: bool = False
    """Without it nothing runs."""


@dataclass(frozen=True, slots=True)
class Report:
    findings: tuple[Finding, ...]

    @property
    def ready(self) -> bool:
        return all(finding.ok for finding in self.findings if finding.needed)


def examine() -> Report:
    return Report((*_python(), *_torch(), *_pawn(), *_sandbox(), *_data(), *_extras()))


def _python() -> list[Finding]:
    ok = sys.version_info >= (3, 11)
    machine = (
        f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores"
    )
    return [
        Finding(
            "machine",
            "python",
            ok,
            platform.python_version() + ("" if ok else ": 3.11 or later is needed"),
            needed=True,
        ),
        Finding("machine", "system", sys.platform == "linux", machine),
        Finding("machine", "redqueen", True, __version__),
    ]


def _torch() -> list[Finding]:
    if importlib.util.find_spec("torch") is None:
        return [Finding("torch", "torch", False, "not installed; `make setup` installs it")]
    import torch

    found = [Finding("torch", "torch", True, torch.__version__)]
    for name in ("transformers", "tokenizers"):
        found.append(_installed("torch", name, "not installed; `make setup` installs it"))
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            found.append(
                Finding(
                    "torch",
                    f"gpu {index}",
                    True,
                    f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB",
                )
            )
    else:
        found.append(
            Finding(
                "torch", "gpu", False, "none that torch can use; the CPU will do for small models"
            )
        )
    return found


def _pawn() -> list[Finding]:
    """The base and the suites that ship with the package."""
    from redqueen.pawn.heldout import FOLDER, load_suite

    weights = FOLDER.parent / "weights"
    try:
        record = json.loads((weights / "pretraining.json").read_text())
        whole = (weights / "model.safetensors").stat().st_size > record["parameters"]
        found = [
            Finding(
                "base",
                "pawn",
                whole,
                f"{record['parameters'] / 1e6:.1f}M parameters, {record['tokens'] / 1e6:.0f}M tokens",
            )
        ]
        return [
            *found,
            Finding(
                "base",
                "suites",
                True,
                f"{len(load_suite('heldout'))} held-out problems, checksum right",
            ),
        ]
    except (OSError, ValueError, DataError) as error:
        return [Finding("base", "pawn", False, f"{error}; install the package again")]


def _sandbox() -> list[Finding]:
    from redqueen.config.sandbox import SandboxConfig
    from redqueen.sandbox.pool import SandboxPool
    from redqueen.sandbox.selftest import failures

    try:
        with SandboxPool(
            SandboxConfig(workers=1, unsafe=True)
        ) as pool:  # so that it opens, whatever the self-test says
            walls, failed = pool.walls, failures(pool)
    except SandboxError as error:
        return [Finding("sandbox", "self-test", False, str(error), needed=True)]
    said = "; ".join(failed) or "every attack was stopped, an honest program ran"
    found = [
        Finding("sandbox", name.replace("_", " "), state.startswith("up"), state)
        for name, state in walls.items()
    ]
    return [*found, Finding("sandbox", "self-test", not failed, said, needed=True)]


def _data() -> list[Finding]:
    folder = os.environ.get("REDQUEEN_DATA")
    if not folder:
        return [
            Finding(
                "data",
                "benchmarks",
                False,
                "REDQUEEN_DATA is not set: it names a folder of benchmark files",
            )
        ]
    present = [name for name in BENCHMARKS if (Path(folder) / name).is_file()]
    return [
        Finding(
            "data",
            "benchmarks",
            bool(present),
            f"{len(present)} of {len(BENCHMARKS)} known files in {folder}",
        )
    ]


def _extras() -> list[Finding]:
    return [_installed("extras", name, "not installed (optional)") for name in EXTRAS]


def _installed(topic: str, name: str, otherwise: str) -> Finding:
    try:
        return Finding(topic, name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(topic, name, False, otherwise)


def show(report: Report, as_json: bool) -> None:
    console = Console(highlight=False)
    if as_json:
        findings = [
            {
                "topic": item.topic,
                "name": item.name,
                "ok": item.ok,
                "needed": item.needed,
                "detail": item.detail,
            }
            for item in report.findings
        ]
        console.print(
            json.dumps({"ready": report.ready, "findings": findings}, indent=1),
            soft_wrap=True,
            markup=False,
        )
        return
    table = Table(box=None, show_header=False, padding=(0, 2))
    topic = ""
    for item in report.findings:
        mark = "[green]✓[/]" if item.ok else "[red]✗[/]" if item.needed else "[yellow]–[/]"
        table.add_row(item.topic if item.topic != topic else "", mark, item.name, item.detail)
        topic = item.topic
    console.print(table)
    console.print(
        "[bold green]ready[/]" if report.ready else "[bold red]not ready: see the lines marked ✗[/]"
    )
