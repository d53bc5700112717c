"""Adapters in and out of an engine: PEFT folders, saved states, and what is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from redqueen.engine.protocol import (
    Adapter,
    EngineSpec,
    OptimizerSettings,
    SampleRequest,
    SamplingParams,
    TrainSample,
    create_engine,
)
from redqueen.errors import ConfigError, DataError
from redqueen.models.base import load_base
from redqueen.models.peft_io import CONFIG, WEIGHTS, load_adapter, save_adapter
from tests.contract.tiny import (
    logprobs,
    state,
    tiny_engine,
    tiny_model,
    train,
    train_samples,
)

NAMES = {0: "0/T0", 1: "0/S2.30", 2: "1/T2@30"}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


@pytest.fixture
def folder(tokenizer: Any, tmp_path: Path) -> Path:
    """An adapter as we write it."""
    save_adapter(tiny_engine(tokenizer).read(1), tmp_path, base="tiny", fingerprint="")
    return tmp_path


def same(one: Adapter, other: Adapter) -> bool:
    return (one.rank, one.alpha, set(one.projections)) == (
        other.rank,
        other.alpha,
        set(other.projections),
    ) and all(
        torch.equal(a, b)
        for name, pair in one.projections.items()
        for a, b in zip(pair, other.projections[name], strict=True)
    )


def test_an_adapter_comes_back_from_its_folder_and_fits_another_alpha(
    tokenizer: Any, folder: Path
) -> None:
    engine, other = tiny_engine(tokenizer), tiny_engine(tokenizer, alpha=2)
    adapter = load_adapter(folder)
    assert same(adapter, engine.read(1))
    other.write(2, adapter, reset_optimizer=True)
    sample = TrainSample(1, (5, 6, 7), (8, 9), 1.0)
    (ours,), (theirs,) = logprobs(engine, [sample]), logprobs(other, [replace(sample, slot=2)])
    assert ours == pytest.approx(theirs, abs=1e-4)


def test_a_resumed_engine_goes_on_to_the_bit(tokenizer: Any, tmp_path: Path, device: str) -> None:
    samples = train_samples(Random(13), [0, 1, 2])
    straight, first, resumed = (tiny_engine(tokenizer, device=device) for _ in range(3))
    for _ in range(3):
        train(straight, samples)
    train(first, samples)
    files = first.save(tmp_path, NAMES)
    assert sorted(files) == sorted(
        path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()
    )
    train(resumed, samples, OptimizerSettings(learning_rate=0.1))  # what was there before is gone
    resumed.load(tmp_path, NAMES)
    for _ in range(2):
        train(resumed, samples)
    assert all(torch.equal(value, state(resumed)[name]) for name, value in state(straight).items())
    requests = [
        SampleRequest(sample.prompt, 6, sample.slot, seed) for seed, sample in enumerate(samples)
    ]
    assert straight.sample(requests, SamplingParams()) == resumed.sample(requests, SamplingParams())


def test_every_saved_member_is_a_folder_that_peft_loads(tokenizer: Any, tmp_path: Path) -> None:
    import peft

    engine = tiny_engine(tokenizer)
    engine.save(tmp_path, NAMES)
    ids = torch.tensor([[5, 6, 7, 8]])
    for slot, name in NAMES.items():
        oracle = peft.PeftModel.from_pretrained(tiny_model("llama"), tmp_path / "adapters" / name)
        routing = engine.forward.routing([slot])
        with torch.no_grad():
            hidden = engine.forward.sequences(ids, torch.arange(4)[None], None, routing)
            assert torch.allclose(
                engine.forward.logits(hidden), oracle(ids).logits, atol=1e-5, rtol=1e-5
            )


def test_a_state_of_another_shape_is_refused(tokenizer: Any, tmp_path: Path) -> None:
    tiny_engine(tokenizer).save(tmp_path, NAMES)
    with pytest.raises(ConfigError, match="another base, or another rank"):
        tiny_engine(tokenizer, rank=2).load(tmp_path, NAMES)
    with pytest.raises(DataError, match="not a readable PEFT adapter"):
        tiny_engine(tokenizer).load(tmp_path, {0: "0/nobody"})
    optimizer = tmp_path / "optimizer/0/T0.safetensors"
    save_file({**load_file(optimizer), "exp_avg": torch.zeros(3)}, optimizer)
    with pytest.raises(ConfigError, match="does not fit this engine: 'exp_avg'"):
        tiny_engine(tokenizer).load(tmp_path, NAMES)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("alpha_pattern", {"q_proj": 32}),
        ("rank_pattern", {"q_proj": 2}),
        ("modules_to_save", ["lm_head"]),
        ("exclude_modules", ["v_proj"]),
        ("layer_replication", [[0, 2], [1, 2]]),
        ("trainable_token_indices", [1, 2]),
        ("target_parameters", ["experts.weight"]),
        ("use_dora", True),
        ("use_rslora", True),
        ("lora_bias", True),
        ("bias", "all"),
        ("fan_in_fan_out", True),
        ("init_lora_weights", "pissa"),
        ("some_later_invention", 3),
    ],
)
def test_peft_settings_that_would_change_the_model_are_refused(
    setting: str, value: Any, folder: Path
) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**config, setting: value}))
    with pytest.raises(DataError, match=f"sets {setting}=.* Only plain LoRA is supported"):
        load_adapter(folder)


def without_b(tensors: dict[str, torch.Tensor]) -> None:
    del tensors[next(key for key in tensors if "lora_B" in key)]


def with_embedding(tensors: dict[str, torch.Tensor]) -> None:
    tensors["base_model.model.model.embed_tokens.lora_embedding_A"] = torch.zeros(4, 97)


def with_module(tensors: dict[str, torch.Tensor]) -> None:
    tensors["base_model.model.lm_head.weight"] = torch.zeros(97, 32)


def with_another_rank(tensors: dict[str, torch.Tensor]) -> None:
    name = next(key for key in tensors if "lora_A" in key)
    tensors[name] = torch.zeros(2, 32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_b, "only one of lora_A and lora_B"),
        (with_embedding, "not a LoRA weight of a linear layer"),
        (with_module, "not a LoRA weight of a linear layer"),
        (with_another_rank, "one rank for all projections"),
    ],
)
def test_weights_that_are_not_plain_lora_are_refused(
    change: Callable[[dict[str, torch.Tensor]], None], message: str, folder: Path
) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(DataError, match=message):
        load_adapter(folder)


@pytest.mark.parametrize("target_modules", ["all-linear", r".*\.(q|v)_proj"])
def test_an_adapter_that_peft_made_for_a_pattern_of_modules_is_honoured(
    target_modules: str, tokenizer: Any, tmp_path: Path
) -> None:
    """The weights say which modules were meant."""
    import peft

    config = peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=target_modules, init_lora_weights=False
    )
    theirs = peft.get_peft_model(tiny_model("llama"), config)
    theirs.save_pretrained(str(tmp_path))
    adapter = load_adapter(tmp_path)
    ours = tiny_engine(tokenizer, targets=adapter.targets)
    ours.write(0, adapter, reset_optimizer=True)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        routing = ours.forward.routing([0])
        hidden = ours.forward.sequences(ids, torch.arange(4)[None], None, routing)
        assert torch.allclose(ours.forward.logits(hidden), theirs(ids).logits, atol=1e-5)


def test_bad_adapters_slots_and_targets_get_messages(tokenizer: Any, tmp_path: Path) -> None:
    engine = tiny_engine(tokenizer)
    with pytest.raises(DataError, match="not a readable PEFT adapter"):
        load_adapter(tmp_path)
    with pytest.raises(ConfigError, match="differs in"):
        engine.write(0, Adapter({}, 4, 8), reset_optimizer=True)
    with pytest.raises(ConfigError, match="no slot 3"):
        engine.sample([SampleRequest((1, 2), 3, 3)], SamplingParams())
    with pytest.raises(ConfigError, match="no slot -1"):
        engine.step({-1: OptimizerSettings()})
    with pytest.raises(ConfigError, match=r"unknown projection 'q_prj'\. Did you mean 'q_proj'"):
        tiny_engine(tokenizer, targets=("q_prj",))
    with pytest.raises(ConfigError, match="prompt of 0 tokens"):
        engine.sample([SampleRequest((), 3)], SamplingParams())


def test_chosen_projections_only_are_adapted(tokenizer: Any) -> None:
    adapter = tiny_engine(tokenizer, targets=("q_proj", "v_proj")).read(0)
    assert adapter.targets == ("q_proj", "v_proj") and len(adapter.projections) == 4


def test_an_engine_is_made_by_name_on_the_base_it_is_told(pawn: Any, other_pawn: Path) -> None:
    spec = EngineSpec("pawn", 2, device="cpu", fingerprint=pawn.fingerprint)
    engine = create_engine("torch", spec)
    assert engine.slots == 2 and engine.base.fingerprint == pawn.fingerprint
    assert (engine.base.name, engine.base.device, engine.base.on_gpu) == ("pawn", "cpu", False)
    with pytest.raises(ConfigError, match="other weights than when the members were made"):
        create_engine("torch", replace(spec, base=str(other_pawn)))
    with pytest.raises(ConfigError, match=r"unknown engine 'troch'\. Did you mean 'torch'"):
        create_engine("troch", spec)


def test_the_bare_sampler_is_the_base_without_any_adapter(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    requests = [SampleRequest((5, 6, 7), 8, slot, 3) for slot in range(3)]
    bare = engine.bare().sample(requests, SamplingParams())
    assert len({done.tokens for done in bare}) == 1  # whatever the slot
    members = engine.sample(requests, SamplingParams())
    assert not {done.logprobs for done in members} & {done.logprobs for done in bare}
