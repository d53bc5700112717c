"""What a run will need: arithmetic against what was measured."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.cli.dry_run import base_shape
from redqueen.config.toml import find_recipe, load_config
from redqueen.core.estimate import H200, memory, step_size, step_time


def test_shapes_are_those_of_the_models() -> None:
    seven = base_shape("Qwen/Qwen2.5-Coder-7B-Instruct")
    assert seven.parameters == 7_615_616_512
    assert seven.adapter_parameters(32) == 80_740_352
    assert seven.adapter_parameters(32, ("q_proj",)) == 28 * 32 * 2 * 3584
    assert base_shape("pawn").layers == 6


@pytest.mark.parametrize(
    ("recipe", "settings", "measured"),
    [
        (
            "qwen-coder-0.5b",
            ["engine.max_num_seqs=512", "engine.max_prefill_tokens=65536",
             "engine.max_tokens_per_microbatch=16384"],
            56e9,
        ),
        # the bench's: prompts of 1,792 tokens and up to 256 more, 256 sequences at a time
        (
            "paper-7b",
            ["engine.max_num_seqs=256", "engine.max_prefill_tokens=32768",
             "engine.max_tokens_per_microbatch=16384", "propose.max_prompt_chars=5376", "propose.max_tokens=256",
             "solve.max_tokens=256"],
            94e9,
        ),
    ],
)  # fmt: skip
def test_memory_is_within_a_fifth_of_what_was_measured(
    recipe: str, settings: list[str], measured: float
) -> None:
    config = load_config(find_recipe(recipe), settings)
    estimated = sum(memory([config], base_shape(config.base)).values())
    assert 0.8 * measured < estimated < 1.2 * measured


def test_more_gpus_and_shorter_completions_take_less_time() -> None:
    config = load_config(find_recipe("paper-7b"), [])
    shape = base_shape(config.base)
    long = step_time([config], shape, H200, 1.0).total
    assert step_time([config], shape, H200, 0.25).total < long / 2
    assert long / 10 < step_time([config], shape, H200, 1.0, devices=8).total < long / 4


def test_training_takes_as_long_as_it_was_measured() -> None:
    """One H200, 0.5B shape: 63,000 tokens/s (`redqueen bench engine`, docs/results/engine.md)."""
    settings = ["propose.samples=1000000", "propose.prompts=1", "tasks.kinds=['code_o']"]
    settings += ["population.teachers=1", "solve.attempts=2", "solve.max_tokens=1"]
    settings += ["propose.max_prompt_chars=1"]
    config = load_config(find_recipe("qwen-coder-0.5b"), settings)
    time = step_time([config], base_shape(config.base), H200, 1.0).update
    assert 1e6 * config.propose.max_tokens / time == pytest.approx(63_000, rel=0.1)


def test_a_step_has_the_proposals_attempts_and_replays_of_all_worlds() -> None:
    config = load_config(find_recipe("pawn-cpu"), ["archive.replay_share=0.2"])
    fixed = load_config(find_recipe("pawn-cpu"), ["population.teachers=0", "fixed.problems=5"])
    size = step_size([config, fixed])
    assert (size.proposals, size.attempts, size.replayed) == (48, 48 * 4 + 4 * 5 * 4, 48)


def test_a_dry_run_loads_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["run", "paper-7b", "--dry-run"])
    assert result.exit_code == 0, result.output
    for said in ("7.62B", "80.7M", "KV cache", "of 140 (H200)", "all steps"):
        assert said in result.output
    assert list(tmp_path.iterdir()) == []
    result = CliRunner().invoke(app, ["study", "study-pawn", "--dry-run"])
    assert "in 72 worlds" in result.output and list(tmp_path.iterdir()) == []
