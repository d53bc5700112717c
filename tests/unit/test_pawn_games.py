"""The second bundled base: found by name wherever Pawn is, and its card says how it was trained."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from redqueen.cli import doctor
from redqueen.config.study import load_study
from redqueen.config.toml import find_recipe, load_config
from redqueen.errors import ConfigError
from redqueen.models import bundled
from redqueen.models.base import load_base, locate
from redqueen.models.bundled import BUNDLED
from redqueen.models.shape import read_shape

GAMES = BUNDLED["pawn-games"]
shipped = pytest.mark.skipif(
    not (GAMES / "model.safetensors").is_file(), reason="its weights are not in this clone"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights in the format of both, in place of those that ship."""
    copy = Path(shutil.copytree(BUNDLED["pawn"], tmp_path / "weights-games"))
    monkeypatch.setitem(bundled.BUNDLED, "pawn-games", copy)
    return copy


def test_it_loads_by_name_and_reads_compact_prompts(folder: Path) -> None:
    base = load_base("pawn-games", device="cpu")
    assert (base.name, base.prompt_format) == ("pawn-games", "compact")
    assert base.fingerprint == load_base(str(folder), device="cpu").fingerprint
    assert read_shape("pawn-games").parameters == base.parameters


def test_doctor_finds_both_bases(folder: Path) -> None:
    found = {finding.name: finding.ok for finding in doctor._pawn()}
    assert found == {"pawn": True, "pawn-games": True, "suites": True}
    (folder / "model.safetensors").unlink()
    assert not {finding.name: finding.ok for finding in doctor._pawn()}["pawn-games"]


def test_a_package_without_its_weights_says_so(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"'pawn-games' is not in .*install the package again"):
        locate("pawn-games")


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'pawn-games'\?"):
        locate("pawn-game")


def test_recipe_and_study_play_it() -> None:
    recipe = load_config(find_recipe("games-pawn"))
    assert recipe.base == "pawn-games" and recipe.tasks.kinds == ("code_o", "logic")
    worlds = load_study(find_recipe("study-critique"), [])
    assert [arm for arm, _ in worlds] == ["critique"] * 3 + ["race"] * 3
    for arm, config in worlds:
        assert config.base == "pawn-games" and config.evaluate.every == 10
        assert ("critique" in config.games) == (arm == "critique")


def test_the_card_has_the_command_of_its_training() -> None:
    card = (GAMES / "README.md").read_text()
    command = next(line for line in card.splitlines() if line.startswith("redqueen pawn train"))
    assert command.partition(" --out")[0] in Path("docs/pawn.md").read_text()


def test_its_record_goes_on_from_that_of_pawn() -> None:
    pawn, games = (
        json.loads((BUNDLED[name] / "pretraining.json").read_text())
        for name in ("pawn", "pawn-games")
    )
    weights = (BUNDLED["pawn"] / "model.safetensors").read_bytes()
    assert games["settings"]["start"] == f"sha256:{sha256(weights).hexdigest()}"
    assert games["tokens_before"] == pawn["tokens_before"] + pawn["tokens"]
    card = (GAMES / "README.md").read_text()
    assert f"{games['tokens']:,} tokens" in card and f"{games['tokens_before']:,}" in card


@shipped
def test_the_weights_were_trained_as_the_card_says() -> None:
    card = (GAMES / "README.md").read_text()
    settings = json.loads((GAMES / "pretraining.json").read_text())["settings"]
    for name in ("seed", "tokens", "careful_share", "critique_share", "logic_share"):
        assert f"--{name.replace('_', '-')} {settings[name]} " in card, name
    assert (GAMES / "model.safetensors").stat().st_size < 10e6
    assert load_base("pawn-games", device="cpu").name == "pawn-games"
