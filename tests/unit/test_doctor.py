"""`redqueen doctor` as a person reads it."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from redqueen.cli import doctor
from redqueen.cli.console import VisibleConsole
from redqueen.cli.doctor import EXTRAS, Finding, show_findings

FOUND = [
    Finding("machine", "python", True, "3.11.7", needed=True),
    Finding("torch", "gpu", False, "none that torch can use; Pawn and small models run on the CPU"),
    Finding("sandbox", "namespaces", False, "down: Operation not permitted"),
    Finding("sandbox", "seccomp", True, "up"),
    Finding("sandbox", "self-test", True, "every attack was stopped", needed=True),
    Finding("extras", "gguf", True, "0.19.0"),
    Finding("extras", "wandb", False, "not installed"),
]


def test_every_extra_for_users_is_looked_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert EXTRAS.keys() == project["optional-dependencies"].keys() - {"all", "dev"}
    for extra, package in EXTRAS.items():
        wanted = project["optional-dependencies"][extra]
        assert any(requirement.startswith(package) for requirement in wanted), extra


def test_all_extras_are_those_that_a_run_can_use_and_that_need_no_compiler() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (together,) = project["optional-dependencies"]["all"]
    names = together.removeprefix("redqueen[").removesuffix("]").split(",")
    assert set(names) == EXTRAS.keys() - {"docs", "gpu", "reasoning-gym"}


def test_what_must_be_done_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    show_findings([*FOUND, Finding("x", "torch", False, "not installed", needed=True)], ready=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("not ready")
    assert next(line for line in lines[1:] if line).split()[:2] == ["✗", "torch"]


def test_a_ready_machine_fits_in_80_columns_and_half_a_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = VisibleConsole(markup=True, force_terminal=True, width=80, no_color=True)
    show_findings(FOUND, ready=True, console=console)
    out = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert out.startswith("ready")
    assert "✗" not in out and "wall: namespaces" in out and "1 of 2 walls" in out
    assert max(map(len, out.splitlines())) <= 80 and len(out.splitlines()) < 15
    assert out.index("wandb") < out.index("found") < out.index("gguf")


def test_in_a_pipe_every_finding_is_a_line_without_blanks_at_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = Finding("sandbox", "seccomp", False, " ".join(["down: it is not there"] * 9))
    show_findings([*FOUND, long], ready=True)
    lines = capsys.readouterr().out.splitlines()
    assert sum("seccomp" in line for line in lines) == 1
    assert any(line.endswith(long.detail) for line in lines)
    assert lines == [line.rstrip() for line in lines]


def test_the_tokens_of_a_base_are_those_of_all_parts_of_its_training() -> None:
    found = {finding.name: finding.detail for finding in doctor._pawn()}
    assert found["pawn"] == "4.3M parameters, 1,150M tokens"
    assert found["pawn-games"] == "4.3M parameters, 1,390M tokens"


def test_without_torch_nothing_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.metadata.version

    def without_torch(name: str) -> str:
        if name == "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_torch)
    (torch,) = [one for one in doctor._torch() if one.name == "torch"]
    assert torch.needed and not torch.ok and "pip install torch" in torch.detail
