"""What the README of an export tells its reader to type."""

from pathlib import Path

import pytest

from redqueen.report.export.base_names import license_of_base
from redqueen.report.export.model_cards import CardFacts, model_card


def card(rank: int, base: str = "owner/model", merged: bool = False) -> str:
    facts = CardFacts("S0", "quick", base, rank, step=6, steps="6", created="then")
    return model_card("A student: it solves problems.", facts, merged)


@pytest.mark.parametrize(
    ("rank", "room"), [(1, 1), (4, 8), (8, 8), (12, 16), (32, 32), (300, 320), (512, 512)]
)
def test_vllm_is_given_the_next_rank_that_it_takes(rank: int, room: int) -> None:
    assert (
        f"vllm serve owner/model --enable-lora --lora-modules s0=this-folder --max-lora-rank {room}`"
        in card(rank)
    )
    assert f"Rank {rank}." in card(rank)


def test_a_card_names_a_base_that_the_hub_knows_and_a_licence_that_is_known() -> None:
    assert "base_model: owner/model\n" in card(8) and "license" not in card(8)
    assert "base_model: pawn\n" in card(8, base="pawn")
    of_folder = card(8, base="/models/mine")
    assert "base_model" not in of_folder and 'from_pretrained("/models/mine")' in of_folder
    facts = CardFacts("S0", "quick", "owner/model", 8, 6, "6", "then", license_id="cc-by-4.0")
    assert model_card("A student.", facts, False).startswith("---\nlicense: cc-by-4.0\n")


def test_the_licence_of_a_base_is_the_one_that_its_card_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    assert license_of_base("pawn") == license_of_base("pawn-games") == "apache-2.0"
    assert license_of_base(str(tmp_path)) == license_of_base("owner/model") == ""
    (tmp_path / "README.md").write_text("---\ntags: [x]\nlicense: mit\n---\nlicense: gpl\n")
    assert license_of_base(str(tmp_path)) == "mit"
    (tmp_path / "README.md").write_text("# Mine\n\nlicense: gpl\n")
    assert license_of_base(str(tmp_path)) == ""


def test_vllm_is_not_offered_where_it_would_not_load() -> None:
    assert "vllm" not in card(1024)
    assert "vllm" not in card(8, base="pawn")  # no name that vLLM could find it by
    assert "vllm" not in card(8, merged=True)
