"""What the README of an export tells its reader to type."""

import pytest

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


def test_vllm_is_not_offered_where_it_would_not_load() -> None:
    assert "vllm" not in card(1024)
    assert "vllm" not in card(8, base="pawn")  # no name that vLLM could find it by
    assert "vllm" not in card(8, merged=True)
