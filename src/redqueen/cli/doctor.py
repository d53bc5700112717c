"""`redqueen doctor`: what this machine can do, and what to install where it cannot."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape

from redqueen import __version__
from redqueen.benchmarks.data import VARIABLE
from redqueen.benchmarks.table import BENCHMARKS
from redqueen.cli.console import VisibleConsole, print_rows
from redqueen.cli.options import Json
from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import DataError, SandboxError
from redqueen.models.bundled import BUNDLED
from redqueen.pawn.heldout import load_suite
from redqueen.sandbox.pool import SandboxPool
from redqueen.sandbox.selftest import find_failures

EXTRAS = {
    "gguf": "gguf",
    "gpu": "triton",
    "ray": "ray",
    "serve": "tinker",
    "parquet": "pyarrow",
    "hub": "datasets",
    "plot": "matplotlib",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "notebooks": "ipykernel",
    "reasoning-gym": "reasoning-gym",
    "docs": "mkdocs-material",
}
"""By the extra of the package, what it installs."""


@dataclass(frozen=True, slots=True)
class Finding:
    topic: str
    name: str
    ok: bool
    detail: str
    needed: bool = False
    """Without it nothing runs."""


def doctor(as_json: Json = False) -> None:
    """Say what this machine can do: Python, torch, GPU, sandbox walls, data, optional extras."""
    findings = (*_python(), *_torch(), *_pawn(), *_sandbox(), *_data(), *_extras())
    ready = all(finding.ok for finding in findings if finding.needed)
    if as_json:
        items = [asdict(finding) for finding in findings]
        print(json.dumps({"ready": ready, "findings": items}, indent=1))
    else:
        show_findings(findings, ready)
    raise typer.Exit(0 if ready else 1)


def _python() -> list[Finding]:
    version = platform.python_version()
    recent = sys.version_info >= (3, 11)
    linux = sys.platform == "linux"
    hint = "" if linux else ": the sandbox needs Linux; use a container (docs/tutorials/first-race)"
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return [
        Finding(
            "machine",
            "python",
            recent,
            version if recent else f"{version}: 3.11 or later is needed",
            needed=True,
        ),
        Finding("machine", "system", linux, f"{system}, {os.cpu_count()} cores{hint}"),
        Finding("machine", "redqueen", True, __version__),
    ]


def _torch() -> list[Finding]:
    packages = [
        _installed("torch", name, f"not installed: pip install {name}", needed=True)
        for name in ("torch", "transformers", "tokenizers")
    ]
    if importlib.util.find_spec("torch") is None:
        return packages
    import torch

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [
        *packages,
        *(
            Finding("torch", f"gpu {i}", True, f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB")
            for i, gpu in enumerate(gpus)
        ),
        *(
            []
            if gpus
            else [
                Finding(
                    "torch",
                    "gpu",
                    False,
                    "none that torch can use; Pawn and small models run on the CPU",
                )
            ]
        ),
    ]


def _pawn() -> list[Finding]:
    """The bases and the suites that ship with the package."""
    return [*(_bundled(name, folder) for name, folder in BUNDLED.items()), _suites()]


def _bundled(name: str, folder: Path) -> Finding:
    try:
        record = json.loads((folder / "pretraining.json").read_text())
        tokens = (
            record["tokens"] + record["tokens_before"]
        )  # the last part, and those it goes on from
        whole = (folder / "model.safetensors").stat().st_size > record["parameters"]
    except (OSError, ValueError) as error:
        return Finding("base", name, False, f"{error}; install the package again")
    size = f"{record['parameters'] / 1e6:.1f}M parameters, {tokens / 1e6:,.0f}M tokens"
    return Finding("base", name, whole, size)


def _suites() -> Finding:
    try:
        problems = len(load_suite("heldout"))
    except DataError as error:
        return Finding("base", "suites", False, f"{error}; install the package again")
    return Finding("base", "suites", True, f"{problems:,} held-out problems, checksum matches")


def _sandbox() -> list[Finding]:
    try:  # in unsafe mode the pool opens whatever the self-test says
        with SandboxPool(SandboxConfig(workers=1, unsafe=True)) as pool:
            walls, failed = pool.walls, find_failures(pool)
    except SandboxError as error:
        return [Finding("sandbox", "self-test", False, str(error), needed=True)]
    detail = "; ".join(failed) or "every attack was stopped, an honest program ran"
    return [
        *(
            Finding("sandbox", name.replace("_", " "), state.startswith("up"), state)
            for name, state in walls.items()
        ),
        Finding("sandbox", "self-test", not failed, detail, needed=True),
    ]


def _data() -> list[Finding]:
    folder = os.environ.get(VARIABLE)
    if not folder:
        detail = f"for `redqueen eval --suite humaneval`: set {VARIABLE} to a folder of their files"
        return [Finding("data", "benchmarks", False, detail)]
    files = {suite.source.file.removesuffix(".gz") for suite in BENCHMARKS.values()}
    present = [
        name
        for name in files
        if any((Path(folder) / name).with_suffix(end).is_file() for end in (".jsonl", ".jsonl.gz"))
    ]
    detail = f"{len(present)} of {len(files)} known files in {folder}"
    return [Finding("data", "benchmarks", bool(present), detail)]


def _extras() -> list[Finding]:
    return [
        _installed("extras", package, f"not installed: pip install 'redqueen[{extra}]'")
        for extra, package in EXTRAS.items()
    ]


def _installed(topic: str, name: str, otherwise: str, needed: bool = False) -> Finding:
    try:
        return Finding(topic, name, True, importlib.metadata.version(name), needed)
    except importlib.metadata.PackageNotFoundError:
        return Finding(topic, name, False, otherwise, needed)


def show_findings(findings: Sequence[Finding], ready: bool, console: Console | None = None) -> None:
    """What is to be done, then what could be, then what is there: in 80 columns of a terminal."""
    console = console or VisibleConsole(markup=True, width=min(VisibleConsole().width, 100))
    if ready:
        console.print("[bold green]ready[/]: `redqueen run` plays an arms race on this machine")
    else:
        console.print("[bold red]not ready[/]: fix this first")
    by_need = [finding for finding in findings if not finding.ok and finding.needed]
    by_choice = [
        finding
        for finding in findings
        if not finding.ok and not finding.needed and finding.topic != "extras"
    ]
    _list(console, "", [("[red]✗[/]", finding.name, finding.detail) for finding in by_need])
    wishes = [("[yellow]–[/]", _name(finding), finding.detail) for finding in by_choice]
    if absent := [extra for extra in EXTRAS if not _has(findings, EXTRAS[extra])]:
        wishes.append(("[yellow]–[/]", "extras", _how_to_install(absent)))
    _list(console, "optional, only if you need it", wishes)
    there = [("[green]✓[/]", name, detail) for name, detail in _summary(findings)]
    _list(console, "found", there)


def _list(console: Console, title: str, rows: Sequence[tuple[str, str, str]]) -> None:
    if not rows:
        return
    console.print(f"\n[bold]{title}[/]" if title else "")
    print_rows([(mark, name, escape(detail)) for mark, name, detail in rows], console)


def _name(finding: Finding) -> str:
    return f"wall: {finding.name}" if finding.topic == "sandbox" else finding.name


def _has(findings: Sequence[Finding], name: str) -> bool:
    return any(finding.ok for finding in findings if finding.name == name)


def _how_to_install(extras: Sequence[str]) -> str:
    return f"{', '.join(extras)}: each by pip install 'redqueen[{extras[0]}]'"


def _summary(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """A line for each topic; `--json` has every finding by itself."""
    for topic, group in groupby(findings, key=lambda finding: finding.topic):
        rows = list(group)
        up = [finding for finding in rows if finding.ok]
        if not up:
            continue
        if topic == "sandbox":
            walls = [finding for finding in rows if finding.name != "self-test"]
            tested = " ".join(f.detail for f in up if f.name == "self-test")
            count = f"{sum(wall.ok for wall in walls)} of {len(walls)} walls"
            yield topic, "; ".join(filter(None, (count, tested)))
        elif topic == "extras":
            yield topic, ", ".join(e for e in EXTRAS if _has(findings, EXTRAS[e]))
        else:
            yield topic, ", ".join(f"{finding.name} {finding.detail}" for finding in up)
