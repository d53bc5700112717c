"""The study of a real base, scaled down to a tiny random one with a chat template: every arm plays
a step, warm-up and fixed problems included, and goes on after a stop."""

from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

import redqueen as rq
from redqueen.config.study import load_study
from redqueen.config.toml import find_recipe
from redqueen.ledger.store import digest
from tests.contract.tokenizers import tokenizer_of

SCALED = (
    "seeds=[0]", "device=cpu", "steps=2", "lora.rank=2", "tasks.kinds=['code_o']", "warmup.steps=1",
    "warmup.examples=1", "propose.prompts=1", "propose.samples=2", "propose.max_tokens=6",
    "propose.max_prompt_chars=300", "solve.attempts=2", "solve.max_tokens=4", "fixed.problems=1",
    "evolve.exam.problems=2", "sandbox.workers=1", "evaluate.suite=", "ledger.checkpoint_every=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen2 as it is, with a few weights."""
    folder, tokenizer = tmp_path_factory.mktemp("base") / "tiny-qwen", tokenizer_of("chatml")
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        eos_token_id=tokenizer.eos_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_the_arms_are_those_of_the_question_at_equal_cost() -> None:
    worlds = dict(load_study(find_recipe("study-qwen"), []))
    assert list(worlds) == [
        "single-azr-total",
        "single-azr",
        "1t1s",
        "4t4s",
        "4t4s-no-evolution",
        "fixed",
    ]
    tokens = {arm: config.stop.tokens for arm, config in worlds.items()}
    total = tokens["4t4s"]
    assert total and tokens.pop("single-azr") * worlds["4t4s"].slots == total
    assert set(tokens.values()) == {total}
    assert worlds["4t4s"].evolve.every and not worlds["4t4s-no-evolution"].evolve.every
    assert worlds["fixed"].is_fixed and worlds["fixed"].fixed.source == "pawn"
    assert all(config.warmup.steps and config.engine.unfitted for config in worlds.values())
    assert all(len(config.evaluate.outcomes) == 5 for config in worlds.values())


@pytest.mark.slow
def test_every_arm_plays_on_a_chat_base_and_goes_on_after_a_stop(
    base: Path, tmp_path: Path
) -> None:
    arms = load_study(find_recipe("study-qwen"), [*SCALED, f"base={base}"])
    with rq.Run.create(arms, tmp_path / "straight") as run:
        steps = list(run)
        assert run.engine.base.prompt_format == "chat"
    first = dict(zip((world.arm for world in run.worlds), steps[0].worlds, strict=True))
    assert first["fixed"].metrics["verify/valid_frac"] == 1.0
    assert first["fixed"].metrics["solve/count"] == 4 * 2
    assert first["4t4s"].metrics["propose/count"] == 4 * 2
    assert first["4t4s"].metrics["propose/cut_off_frac"] > 0
    with rq.open_run(tmp_path / "straight") as played:
        warmed = [row for row in played.metrics() if row["name"] == "warmup/tokens"]
        assert len(warmed) == len(arms) and {row["step"] for row in warmed} == {0}
    with rq.Run.create(arms, tmp_path / "pieces") as run:
        run.play_step()
    with rq.Run.resume(tmp_path / "pieces") as run:
        assert [step.number for step in run] == [2]
    assert digest(tmp_path / "pieces") == digest(tmp_path / "straight")
