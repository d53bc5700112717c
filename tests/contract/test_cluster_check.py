"""`redqueen cluster check`: what is wrong with the places of workers, before a run begins."""

import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.engine.blocks import probe
from redqueen.engine.blocks.probe import Place, Question, compare, examine
from redqueen.errors import ConfigError

VERSIONS = {"redqueen": "1", "torch": "2", "transformers": "3", "numpy": "4"}
GOOD = Place("one", 1, "3.12.1", VERSIONS, "a GPU", "bfloat16:1", 1.0, {"seccomp": "up"}, True)


def test_equal_places_are_fine() -> None:
    assert compare([GOOD, replace(GOOD, host="two")], Path("runs")) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            replace(GOOD, host="two", fingerprint="bfloat16:2"),
            "weights of the base differ: bfloat16:1 on one, bfloat16:2 on two",
        ),
        (replace(GOOD, host="two", python="3.11.0"), "Python differ: 3.12.1 on one, 3.11.0 on two"),
        (
            replace(GOOD, host="two", versions={**VERSIONS, "torch": "2.1"}),
            "torch differ: 2 on one, 2.1 on two",
        ),
        (replace(GOOD, host="two", sees_folder=False), "two cannot read and write runs"),
        (replace(GOOD, host="two", problems=("no walls here",)), "two: no walls here"),
    ],
)
def test_what_differs_or_is_missing_is_said(other: Place, said: str) -> None:
    (line,) = compare([GOOD, other], Path("runs"))
    assert line.startswith(said)


def test_a_package_that_is_not_installed_has_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(question: Question) -> dict[str, object]:
        raise ConfigError("nothing here")

    def find(name: str) -> str:
        raise PackageNotFoundError(name)

    for look in ("_look_at_base", "_look_at_walls", "_look_at_folder"):
        monkeypatch.setattr(probe, look, fail)
    monkeypatch.setattr("importlib.metadata.version", find)
    place = examine(Question("pawn", "cpu", tmp_path, "7"))
    assert set(place.versions.values()) == {""} and len(place.problems) == 3


@pytest.mark.slow
def test_a_place_says_what_it_cannot_do(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("7")
    place = examine(Question("pawn", "cpu", tmp_path, "7"))
    assert place.problems == () and place.sees_folder and place.fingerprint and place.walls
    other = examine(Question(str(tmp_path / "nowhere"), "cpu", tmp_path / "gone", "7"))
    assert not other.sees_folder and not other.fingerprint
    assert len(other.problems) == 1 and "nowhere" in other.problems[0]


@pytest.mark.slow
def test_the_command_answers_for_the_devices_of_this_machine(tmp_path: Path) -> None:
    words = [
        "cluster",
        "check",
        "--workers=1",
        "--device=cpu",
        f"--out={tmp_path / 'runs'}",
        "--json",
    ]
    result = CliRunner().invoke(app, words)
    report = json.loads(result.stdout)
    assert result.exit_code == 0 and report["ready"] and report["problems"] == []
    (place,) = report["places"]
    assert place["fingerprint"] and place["sees_folder"] and place["rows_ms"] > 0
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
