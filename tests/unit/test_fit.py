"""Limits that fit by themselves: a rule on shapes and memory, and what a ledger keeps of it."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import redqueen as rq
from redqueen.cli.app import app
from redqueen.cli.dry_run import base_shape
from redqueen.config.engine import Limits
from redqueen.config.toml import find_recipe, load_config
from redqueen.core import fit as fitting
from redqueen.core.estimate import memory
from redqueen.core.fit import fit, fit_to_device
from redqueen.engine.blocks.devices import device_memory
from redqueen.errors import ConfigError

REAL = ["qwen-coder-0.5b", "qwen-coder-1.5b", "paper-7b"]


@pytest.mark.parametrize("recipe", REAL)
@pytest.mark.parametrize("gigabytes", [24, 48, 80, 140])
def test_real_bases_fit_whatever_the_gpu(recipe: str, gigabytes: int) -> None:
    config = load_config(find_recipe(recipe), ["engine.gradient_checkpointing=true"])
    shape = base_shape(config.base)
    if recipe == "paper-7b" and gigabytes < 48:
        with pytest.raises(ConfigError, match=r"24 GB: base 15.2 GB.*lora.rank"):
            fit([config], shape, gigabytes * 1e9)
        return
    limits = fit([config], shape, gigabytes * 1e9)
    fitted = config.model_copy(update={"engine": config.engine.with_limits(limits)})
    assert not fitted.engine.unfitted
    assert sum(memory([fitted], shape).values()) < 0.85 * gigabytes * 1e9


def test_where_it_is_tight_the_least_is_tried_and_said(caplog: pytest.LogCaptureFixture) -> None:
    config = load_config(find_recipe("qwen-coder-1.5b"), [])
    assert fit([config], base_shape(config.base), 20e9) == Limits(8, 1024, 1024)
    assert "20 GB of GPU memory may be too few" in caplog.text


def test_a_larger_gpu_never_gets_less_and_more_worlds_never_more() -> None:
    config = load_config(find_recipe("qwen-coder-1.5b"), [])
    shape = base_shape(config.base)
    by_size = [fit([config], shape, gigabytes * 1e9) for gigabytes in (24, 40, 80, 140, 190)]
    for small, large in pairwise(by_size):
        assert all(a <= b for a, b in zip(small, large, strict=True))
    assert fit([config] * 8, shape, 140e9).max_num_seqs <= by_size[3].max_num_seqs


def test_what_is_set_stays_and_the_rest_makes_room_for_it() -> None:
    config = load_config(find_recipe("qwen-coder-1.5b"), ["engine.max_num_seqs=512"])
    free = load_config(find_recipe("qwen-coder-1.5b"), [])
    shape = base_shape(config.base)
    limits, others = fit([config], shape, 80e9), fit([free], shape, 80e9)
    assert limits.max_num_seqs == 512 > others.max_num_seqs
    assert limits.max_tokens_per_microbatch <= others.max_tokens_per_microbatch


def test_without_a_gpu_the_defaults_hold_and_numbers_are_left_alone() -> None:
    config = load_config(find_recipe("pawn-cpu"), ["engine.max_num_seqs=auto"])
    (fitted,), about = fit_to_device([config], config.base)
    assert fitted.engine.limits == Limits(max_tokens_per_microbatch=4096)
    assert json.loads(about["limits"]) == {"memory": 0, "max_num_seqs": 256}
    plain = load_config(find_recipe("pawn-cpu"), [])
    assert fit_to_device([plain], plain.base) == ([plain], {})


def test_a_run_keeps_its_limits_in_the_ledger_whatever_it_is_resumed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(
        find_recipe("pawn-cpu"), ["steps=1", "engine.max_num_seqs=auto", "evaluate.suite="]
    )
    monkeypatch.setattr(fitting, "device_memory", lambda *asked: 24 * 10**9)
    with rq.Run.create(config, tmp_path / "run") as run:
        chosen = run.config.engine.max_num_seqs
        assert isinstance(chosen, int) and run.worlds[0].config.engine.max_num_seqs == chosen
        assert json.loads(run.ledger.about["limits"])["max_num_seqs"] == chosen != 256
    monkeypatch.setattr(fitting, "device_memory", lambda *asked: 140 * 10**9)
    with rq.Run.resume(tmp_path / "run") as run:
        assert run.config.engine.max_num_seqs == chosen


def test_the_gpu_that_computes_is_asked_for_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [80, 24, 140]

    class Properties:
        def __init__(self, number: int) -> None:
            self.total_memory = sizes[number]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_properties", Properties)

    def ask(*settings: str) -> int:
        config = load_config(find_recipe("paper-7b"), settings)
        return device_memory(config.device, config.engine)

    assert ask() == 80 and ask("device=cuda:2") == 140 and ask("device=auto") == 80
    assert ask("device=cpu") == ask("device=cuda:9") == 0
    assert ask("engine.type=processes") == 24
    assert ask("engine.type=processes", "engine.devices=[0,2]") == 80


def test_a_dry_run_says_what_fits() -> None:
    result = CliRunner().invoke(app, ["run", "qwen-coder-1.5b", "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "max_tokens_per_microbatch" in result.output and "may not fit" not in result.output
