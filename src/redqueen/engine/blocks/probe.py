"""What `redqueen cluster check` asks on every worker's place: what it is, whether the base loads
there, whether the sandbox's walls stand, and whether it sees the run folder."""

import importlib.metadata
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.config.sandbox import SandboxConfig
from redqueen.engine.protocol import EngineSpec, create_engine
from redqueen.errors import RedQueenError

PACKAGES = ("redqueen", "torch", "transformers", "numpy")


@dataclass(frozen=True, slots=True)
class Question:
    base: str
    device: str
    """What torch calls it there."""
    folder: Path
    """Where the file `token` is, and where an answer is to be written."""
    token: str


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's place, as it says itself."""

    host: str
    pid: int
    python: str
    versions: dict[str, str]
    hardware: str = ""
    fingerprint: str = ""
    """Of the base, where it loads."""
    load_s: float = 0.0
    walls: dict[str, str] = field(default_factory=dict)
    sees_folder: bool = False
    problems: tuple[str, ...] = ()


def examine(question: Question) -> Place:
    found: dict[str, Any] = {}
    problems: list[str] = []
    for look in (_look_at_base, _look_at_walls, _look_at_folder):
        try:
            found |= look(question)
        except Exception as error:  # noqa: BLE001  whatever is wrong here is what was asked
            known = isinstance(error, RedQueenError)
            problems.append(str(error) if known else f"{type(error).__name__}: {error}")
    return Place(
        host=platform.node(),
        pid=os.getpid(),
        python=platform.python_version(),
        versions={name: _version(name) for name in PACKAGES},
        problems=tuple(problems),
        **found,
    )


def _version(package: str) -> str:
    """Empty where it is not installed: it may be on the path only."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _look_at_base(question: Question) -> dict[str, Any]:
    config = EngineConfig(threads=1)
    spec = EngineSpec(question.base, 1, LoraConfig(rank=1), config, device=question.device)
    started = time.monotonic()
    base = create_engine("torch", spec).base
    seconds = round(time.monotonic() - started, 1)
    return {"hardware": base.hardware, "fingerprint": base.fingerprint, "load_s": seconds}


def _look_at_walls(question: Question) -> dict[str, Any]:
    from redqueen.sandbox.pool import SandboxPool

    with SandboxPool(SandboxConfig(workers=1)) as pool:  # it tests them, and refuses to open
        return {"walls": pool.walls}


def _look_at_folder(question: Question) -> dict[str, Any]:
    try:
        seen = (question.folder / "token").read_text() == question.token
        (question.folder / f"{platform.node()}-{os.getpid()}").write_text(question.token)
    except OSError:
        seen = False
    return {"sees_folder": seen}


def compare(places: Sequence[Place], folder: Path) -> list[str]:
    """What is wrong, a line each."""
    lines = [f"{place.host}: {problem}" for place in places for problem in place.problems]
    lines += [
        f"{place.host} cannot read and write {folder}: put runs on a file system that all machines "
        "share"
        for place in places
        if not place.sees_folder
    ]
    lines += _differences("weights of the base", {p.host: p.fingerprint for p in places})
    lines += _differences("Python", {place.host: place.python for place in places})
    for name in PACKAGES:
        lines += _differences(name, {place.host: place.versions[name] for place in places})
    return lines


def _differences(what: str, values: dict[str, str]) -> list[str]:
    known = {host: value for host, value in values.items() if value}
    if len(set(known.values())) < 2:
        return []
    return [f"{what} differ: " + ", ".join(f"{value} on {host}" for host, value in known.items())]
