"""Pawn's model card says what is in its folder."""

import hashlib
import json

from redqueen.pawn.heldout import FOLDER

WEIGHTS = FOLDER.parent / "weights"
CARD = (WEIGHTS / "README.md").read_text()


def test_the_checksum_in_the_card_is_that_of_the_weights() -> None:
    assert hashlib.sha256((WEIGHTS / "model.safetensors").read_bytes()).hexdigest() in CARD


def test_the_card_has_the_figures_of_the_pre_training() -> None:
    record = json.loads((WEIGHTS / "pretraining.json").read_text())
    for name in ("parameters", "documents", "tokens"):
        assert f"{record[name]:,}" in CARD, name
    assert f"{record['seconds']:.0f} s" in CARD
    assert f"seed {record['settings']['seed']}" in CARD


def test_the_card_has_the_tokens_of_all_parts() -> None:
    record = json.loads((WEIGHTS / "pretraining.json").read_text())
    assert f"{record['tokens_before']:,}" in CARD
    assert f"{record['tokens'] + record['tokens_before']:,} tokens in all" in CARD


def test_the_weights_are_small_enough_to_ship() -> None:
    assert (WEIGHTS / "model.safetensors").stat().st_size < 20e6
