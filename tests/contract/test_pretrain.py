"""Pre-training, small: the seed decides the weights, with any number of processes, and any tool
loads the folder."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from redqueen.cli.pawn import train as train_command
from redqueen.errors import ConfigError
from redqueen.models.base import load_base
from redqueen.pawn.pretrain import Pretraining, Trained, pretrain
from redqueen.pawn.saving import save
from redqueen.tasks.prompts import Prompt

pytestmark = pytest.mark.slow

TINY = Pretraining(
    seed=1, tokenizer_shards=1, hidden=32, layers=1, tokens=30_000, row_tokens=256, batch_rows=8
)


def train(settings: Pretraining, workers: int) -> tuple[Trained, list[tuple[int, float]]]:
    reports: list[tuple[int, float]] = []
    trained = pretrain(
        settings, frozenset(), "cpu", workers, lambda tokens, loss: reports.append((tokens, loss))
    )
    return trained, reports


@pytest.fixture(scope="module")
def trained() -> tuple[Trained, list[tuple[int, float]]]:
    return train(TINY, workers=1)


def weights(trained: Trained) -> dict[str, torch.Tensor]:
    return trained.model.state_dict()


def test_the_same_seed_gives_the_same_weights_with_any_number_of_processes(
    trained: tuple[Trained, list[tuple[int, float]]],
) -> None:
    again, _ = train(TINY, workers=2)
    assert again.tokenizer.to_str() == trained[0].tokenizer.to_str()
    assert (again.tokens, again.loss) == (trained[0].tokens, trained[0].loss)
    for name, weight in weights(trained[0]).items():
        assert torch.equal(weight, weights(again)[name]), name


@pytest.mark.gpu
@pytest.mark.filterwarnings(
    "ignore", "error:on this GPU"
)  # the compiler warns of itself; ours is the one that counts
def test_the_same_seed_gives_the_same_weights_on_a_gpu_too() -> None:
    settings = replace(TINY, hidden=64, layers=2, tokens=300_000, row_tokens=512)
    first, second = (
        pretrain(settings, frozenset(), "cuda", workers, lambda tokens, loss: None)
        for workers in (1, 3)
    )
    assert not torch.are_deterministic_algorithms_enabled()
    for name, weight in weights(first).items():
        assert torch.equal(weight, weights(second)[name]), name


def test_deterministic_mode_ends_with_the_training(
    trained: tuple[Trained, list[tuple[int, float]]],
) -> None:
    memory: Any = torch.utils.deterministic
    assert (torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory, trained[0].model.config._attn_implementation) == (
        False, True, "sdpa"
    )  # fmt: skip


def test_it_learns_reports_its_loss_and_stops_at_the_tokens_asked_for(
    trained: tuple[Trained, list[tuple[int, float]]],
) -> None:
    result, reports = trained
    assert reports[-1][0] == TINY.tokens <= result.tokens < TINY.tokens + 8 * 257
    assert result.loss < reports[0][1]
    assert result.documents > 1000


def test_training_continues_from_a_model_with_its_tokenizer(
    trained: tuple[Trained, list[tuple[int, float]]], tmp_path: Path
) -> None:
    save(trained[0], TINY, tmp_path)
    continued, reports = train(
        replace(TINY, seed=2, start=str(tmp_path), learning_rate=1e-4), workers=1
    )
    assert continued.tokenizer.get_vocab() == trained[0].tokenizer.get_vocab()
    assert reports[0][1] < trained[1][0][1] - 1  # it starts trained
    still, _ = train(replace(TINY, seed=2, start=str(tmp_path), learning_rate=0.0), workers=1)
    for name, weight in weights(trained[0]).items():  # sharpened once, not twice
        torch.testing.assert_close(
            weights(still)[name].bfloat16(), weight.bfloat16(), rtol=0.01, atol=1e-3
        )


def test_training_continues_with_critiques_and_puzzles(
    trained: tuple[Trained, list[tuple[int, float]]], tmp_path: Path
) -> None:
    save(trained[0], TINY, tmp_path)
    settings = replace(TINY, seed=2, start=str(tmp_path), critique_share=0.3, logic_share=0.2)
    continued, reports = train(settings, workers=1)
    assert continued.tokenizer.get_vocab() == trained[0].tokenizer.get_vocab()
    assert continued.loss < reports[0][1]
    save(continued, settings, tmp_path / "next")
    record = json.loads((tmp_path / "next" / "pretraining.json").read_text())
    shares = (record["settings"]["critique_share"], record["settings"]["logic_share"])
    assert shares == (0.3, 0.2)
    assert (record["tokens"], record["tokens_before"]) == (continued.tokens, trained[0].tokens)


def test_what_came_before_an_older_record_is_not_made_up(
    trained: tuple[Trained, list[tuple[int, float]]], tmp_path: Path
) -> None:
    save(trained[0], TINY, tmp_path)
    file = tmp_path / "pretraining.json"
    record = json.loads(file.read_text())
    assert record.pop("tokens_before") == 0
    for start, before in ("", trained[0].tokens), ("sha256:5b2a", None):
        file.write_text(json.dumps(record | {"settings": {"seed": 0, "start": start}}))
        save(trained[0], replace(TINY, start=str(tmp_path)), tmp_path / "next")
        written = json.loads((tmp_path / "next" / "pretraining.json").read_text())
        assert written["tokens_before"] == before


def test_continuing_needs_a_pawn_and_another_seed(
    trained: tuple[Trained, list[tuple[int, float]]], tmp_path: Path
) -> None:
    save(trained[0], TINY, tmp_path)
    with pytest.raises(ConfigError, match="no Pawn in"):
        train_command(tmp_path / "out", start=str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="give another one, such as --seed 2"):
        train_command(tmp_path / "out", start=str(tmp_path), seed=TINY.seed)


def test_transformers_loads_the_folder(
    trained: tuple[Trained, list[tuple[int, float]]], tmp_path: Path
) -> None:
    save(trained[0], TINY, tmp_path)
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert model.dtype == torch.bfloat16
    ids = tokenizer(">>student code_o\n", return_tensors="pt")["input_ids"]
    assert model.generate(ids, max_new_tokens=4).shape[1] > ids.shape[1]
    record = json.loads((tmp_path / "pretraining.json").read_text())
    assert record["settings"]["seed"] == TINY.seed
    assert record["tokens"] == trained[0].tokens
    base = load_base(str(tmp_path), device="cpu")
    assert (base.name, base.prompt_format) == ("pawn", "compact")
    assert base.encode(Prompt(">>new\n>>end")) == tuple(tokenizer(">>new\n>>end")["input_ids"])
