"""Loading a base: every family that is promised, and every mistake that a user can make."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from redqueen.config.engine import LoraConfig
from redqueen.engine.protocol import SampleRequest, SamplingParams
from redqueen.engine.torch.engine import TorchEngine
from redqueen.errors import ConfigError
from redqueen.evaluate.targets import open_target
from redqueen.models.base import FAMILIES, PAWN, Base, load_base
from redqueen.models.peft_io import base_of, save_adapter
from redqueen.models.unpacked import folder_of
from redqueen.tasks.prompts import Prompt
from tests.contract.gguf_files import qwen_model, save_folder, save_gguf

PROMPT = Prompt(">>student code_o\n>>program\ndef f(n):\n    return n + 3\n>>input\n4\n>>answer\n")
TINY = {
    "vocab_size": 768, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "max_position_embeddings": 256, "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
MORE = {
    "gemma2": {"layer_types": ["sliding_attention", "full_attention"]},
    "gemma3_text": {"layer_types": ["sliding_attention", "full_attention"]},
}


def tiny(family: str, folder: Path, sliding_window: int = 64) -> Path:
    """A small random model of this family, with Pawn's tokenizer."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(family, sliding_window=sliding_window, **TINY, **MORE.get(family, {}))
    )
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(PAWN / name, folder)
    return folder


def pawn_in(folder: Path) -> Path:
    shutil.copytree(PAWN, folder, dirs_exist_ok=True)
    return folder


def refusal(source: str | Path, **settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_base(str(source), **settings)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_every_family_loads_and_continues_a_prompt(family: str, tmp_path: Path) -> None:
    base = load_base(str(tiny(family, tmp_path / family)), device="cpu")
    assert (base.name, base.prompt_format, base.dtype) == (family, "chat", torch.float32)
    assert not any(weight.requires_grad for weight in base.model.parameters())
    assert_continues(base)


@pytest.mark.parametrize("family", ["gemma2", "gemma3_text", "mistral"])
def test_a_model_that_looks_back_only_so_far_continues_a_longer_prompt(
    family: str, tmp_path: Path
) -> None:
    assert_continues(load_base(str(tiny(family, tmp_path, sliding_window=8)), device="cpu"))


def assert_continues(base: Base) -> None:
    """Greedy, in a batch of a longer and a shorter prompt, as the model does when it reads the
    whole text at once."""
    prompts = [tuple(base.encode(PROMPT)), tuple(base.encode(PROMPT))[-7:]]
    found = TorchEngine(base).sample(
        [SampleRequest(prompt, max_tokens=12) for prompt in prompts], SamplingParams(temperature=0)
    )
    for prompt, completion in zip(prompts, found, strict=True):
        likeliest = (
            base.model(input_ids=torch.tensor([prompt + completion.tokens]))
            .logits[0]
            .argmax(-1)
            .tolist()
        )
        assert completion.tokens == tuple(likeliest[len(prompt) - 1 : -1])


def test_pawn_loads_by_name_and_by_folder(tmp_path: Path, pawn: Base) -> None:
    assert (pawn.name, pawn.prompt_format) == ("pawn", "compact")
    assert 2e6 < pawn.parameters < 8e6
    again = load_base(
        str(pawn_in(tmp_path / "mine")), device="cpu", dtype="bfloat16", attention="eager"
    )
    assert (again.name, again.prompt_format, again.dtype) == ("pawn", "compact", torch.bfloat16)


def test_pawn_loads_with_the_plain_classes_of_transformers() -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(PAWN)
    tokenizer = AutoTokenizer.from_pretrained(PAWN)
    assert type(model).__name__ == "LlamaForCausalLM"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False) == "a"
    ids = tokenizer(PROMPT.text, return_tensors="pt")["input_ids"]
    assert ">>output" in tokenizer.decode(
        model.generate(ids, max_new_tokens=20, do_sample=False)[0]
    )


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    assert "Did you mean 'pawn'?" in refusal("pwan")


def test_a_name_that_is_neither_a_folder_nor_on_the_hub_says_so(tmp_path: Path) -> None:
    assert f"there is no folder {tmp_path / 'nowhere'}" in refusal(tmp_path / "nowhere")
    assert "cannot be a name on the hub" in refusal("a/b/c")


def test_a_name_on_the_hub_without_network_says_what_was_looked_for_where_and_what_to_do() -> None:
    said = refusal("nobody/no-such-model")
    assert "'nobody/no-such-model' is not a folder here" in said
    assert "its cache in " in said
    assert "HF_HUB_OFFLINE is set" in said
    assert "download it elsewhere and give its folder" in said


def test_a_folder_without_a_model_says_what_is_missing(tmp_path: Path) -> None:
    assert "without config.json" in refusal(tmp_path)
    (tmp_path / "config.json").write_text((PAWN / "config.json").read_text())
    assert str(tmp_path) in refusal(tmp_path)


def test_a_family_that_is_not_supported_is_named_with_those_that_are(tmp_path: Path) -> None:
    AutoConfig.for_model("gpt2", n_embd=8, n_layer=1, n_head=1).save_pretrained(tmp_path)
    said = refusal(tmp_path)
    assert "of the family 'gpt2'" in said
    assert "qwen3" in said


@pytest.mark.parametrize("kept", [0, 1000, -1000])
def test_a_broken_weight_file_is_a_message(kept: int, tmp_path: Path) -> None:
    weights = pawn_in(tmp_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    assert f"could not be loaded from {tmp_path}" in refusal(tmp_path)


def test_weights_that_are_in_no_file_are_an_error_and_not_chance(tmp_path: Path) -> None:
    path = pawn_in(tmp_path) / "model.safetensors"
    weights = load_file(path)
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, path, {"format": "pt"})
    assert "such as model.layers.0.mlp.up_proj.weight" in refusal(tmp_path)


@pytest.mark.parametrize("content", ["{", "{}", '{"model_type": "brandnew"}'])
def test_a_config_that_is_none_is_a_message(content: str, tmp_path: Path) -> None:
    (pawn_in(tmp_path) / "config.json").write_text(content)
    assert f"could not be loaded from {tmp_path}" in refusal(tmp_path)


def test_a_gguf_file_that_is_missing_or_broken_is_a_message(tmp_path: Path) -> None:
    path = tmp_path / "some.gguf"
    assert f"there is no file {path}" in refusal(path)
    path.write_bytes(b"hello")
    assert f"the base '{path}' could not be loaded" in refusal(path)


def test_a_gguf_file_without_the_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'redqueen[gguf]'" in refusal(tmp_path / "some.gguf")


def test_a_device_that_is_not_there_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "torch sees no GPU here" in refusal("pawn", device="cuda")
    assert "unknown device 'gpu'" in refusal("pawn", device="gpu")
    assert "'mps' is not supported" in refusal("pawn", device="mps")


def test_a_base_without_a_chat_template_says_so_when_it_is_talked_to(tmp_path: Path) -> None:
    base = load_base(str(tiny("llama", tmp_path)), device="cpu")
    with pytest.raises(ConfigError, match="no chat template"):
        base.encode(Prompt("2 + 2?", system="Be brief."))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}{# system #}",
            "[system]Be brief.[user]2 + 2?",
        ),
        (
            "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}",
            "[user]Be brief.\n\n2 + 2?",
        ),
        (
            "{{ raise_exception('System role not supported') if messages[0]['role'] == 'system' }}{{ messages[0]['content'] }}",
            "Be brief.\n\n2 + 2?",
        ),
    ],
)
def test_a_system_text_goes_where_the_template_has_room_for_it(
    template: str, expected: str, tmp_path: Path
) -> None:
    folder = tiny("llama", tmp_path)
    (folder / "chat_template.jinja").write_text(template)
    base = load_base(str(folder), device="cpu")
    assert base.decode(base.encode(Prompt("2 + 2?", system="Be brief."))) == expected


@pytest.mark.parametrize(
    ("mention", "expected"),
    [
        ("{# system #}", "[system]Be brief.[user]1 + 1?[assistant]2[user]2 + 2?"),
        ("", "[user]Be brief.\n\n1 + 1?[assistant]2[user]2 + 2?"),
    ],
)
def test_earlier_turns_stay_turns_whether_or_not_there_is_room_for_a_system_text(
    mention: str, expected: str, tmp_path: Path
) -> None:
    folder = tiny("llama", tmp_path)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}" + mention
    )
    base = load_base(str(folder), device="cpu")
    assert (
        base.decode(base.encode(Prompt("2 + 2?", system="Be brief.", before=(("1 + 1?", "2"),))))
        == expected
    )


def test_a_reply_ends_at_every_end_the_model_knows(tmp_path: Path) -> None:
    folder = tiny("llama", tmp_path)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 6]}))
    tokens, texts = load_base(str(folder), device="cpu").stops([">>end", "</answer>", ">>output"])
    output = AutoTokenizer.from_pretrained(PAWN).convert_tokens_to_ids(">>output")
    assert (tokens, texts) == (frozenset({1, 5, 6, output}), ("</answer>",))


def test_a_thought_that_the_template_leaves_out_of_earlier_turns_is_shown_in_the_question(
    tmp_path: Path,
) -> None:
    folder = tiny("llama", tmp_path)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] if m['role'] != 'assistant' else '2' }}{% endfor %}{# system #}"
    )
    base = load_base(str(folder), device="cpu")
    text = base.decode(
        base.encode(
            Prompt("2 + 2?", system="Be brief.", before=(("1 + 1?", "<think>one more</think>2"),))
        )
    )
    assert (
        text
        == "[system]Be brief.[user]1 + 1?\n\nA whole reply to this:\n\n<think>one more</think>2\n\nNow another request.\n\n2 + 2?"
    )


def test_a_fingerprint_tells_weights_apart_however_they_are_loaded(
    other_pawn: Path, pawn: Base
) -> None:
    assert load_base("pawn", device="cpu", dtype="bfloat16").fingerprint == pawn.fingerprint
    other = load_base(str(other_pawn), device="cpu")
    assert other.fingerprint != pawn.fingerprint
    pawn.check(pawn.fingerprint)
    pawn.check("")
    with pytest.raises(ConfigError, match="other weights than when the members were made"):
        pawn.check(other.fingerprint)


def test_weights_in_float16_are_told_apart_from_others_too(other_pawn: Path, pawn: Base) -> None:
    half, other = (
        load_base(str(place), device="cpu", dtype="float16") for place in ("pawn", other_pawn)
    )
    assert half.fingerprint.startswith("float16:")
    half.check(half.fingerprint)
    pawn.check(half.fingerprint)  # float32 has all digits that float16 had
    for base, recorded in (
        (half, other.fingerprint),
        (pawn, other.fingerprint),
        (other, pawn.fingerprint),
    ):
        with pytest.raises(ConfigError, match="other weights than when the members were made"):
            base.check(recorded)
    with pytest.raises(ConfigError, match="load them in bfloat16, as they were then"):
        other.check(pawn.fingerprint)


def test_a_fingerprint_is_of_the_weights_and_not_of_the_file(tmp_path: Path) -> None:
    model = qwen_model(0)
    folder = load_base(str(save_folder(model, tmp_path / "folder")), device="cpu")
    file = load_base(str(save_gguf(model, tmp_path / "file.gguf")), device="cpu")
    other = load_base(str(save_gguf(qwen_model(1), tmp_path / "other.gguf")), device="cpu")
    assert file.fingerprint == folder.fingerprint != other.fingerprint
    for base in (folder, file):
        base.check(file.fingerprint)
        with pytest.raises(ConfigError, match="other weights than when the members were made"):
            base.check(other.fingerprint)


def test_packed_weights_are_those_they_are_unpacked_to(tmp_path: Path) -> None:
    path = save_gguf(qwen_model(0), tmp_path / "q8.gguf", GGMLQuantizationType.Q8_0)
    packed = load_base(str(path), device="cpu")
    unpacked = load_base(str(save_folder(packed.model, tmp_path / "unpacked")), device="cpu")
    assert unpacked.fingerprint == packed.fingerprint
    exact = load_base(str(save_folder(qwen_model(0), tmp_path / "exact")), device="cpu")
    with pytest.raises(ConfigError, match="other weights"):
        exact.check(packed.fingerprint)


def test_a_gguf_file_is_unpacked_once_and_again_when_it_or_the_copy_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save_gguf(qwen_model(0), tmp_path / "file.gguf", GGMLQuantizationType.Q8_0)
    caplog.set_level("INFO", "redqueen.models")

    def load() -> tuple[Base, bool]:
        caplog.clear()
        base = load_base(str(path), device="cpu")
        return base, "unpacking" in caplog.text

    first, unpacked = load()
    second, again = load()
    assert unpacked and not again
    assert (first.name, first.fingerprint) == (second.name, second.fingerprint)
    weights = first.model.state_dict()
    assert all(weights[name].equal(weight) for name, weight in second.model.state_dict().items())
    question = Prompt("x = '<|im_end|>'", system="Be brief.", quotes=((5, 15),))
    assert first.encode(question) == second.encode(question)
    assert first.stops(["\n\n"]) == second.stops(["\n\n"])
    (copy,) = tmp_path.glob("file.gguf.float32/model.safetensors")
    copy.write_bytes(copy.read_bytes()[:-2000])
    assert load()[1] and not load()[1]
    save_gguf(qwen_model(1), path, GGMLQuantizationType.Q8_0)
    other, again = load()
    assert again and other.fingerprint != first.fingerprint


def test_a_gguf_file_in_a_folder_without_room_is_loaded_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save_gguf(qwen_model(0), tmp_path / "file.gguf")
    folder_of(path, torch.float32).write_text("a file is in the way")
    load_base(str(path), device="cpu")
    assert "could not be kept" in caplog.text
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".part")] == []


def test_a_gguf_file_has_its_control_tokens_and_quotes_are_text(tmp_path: Path) -> None:
    base = load_base(str(save_gguf(qwen_model(0), tmp_path / "file.gguf")), device="cpu")
    end = base.tokenizer.convert_tokens_to_ids("<|im_end|>")
    text = "x = '<|im_end|>'"
    ids = base.encode(Prompt(text, system="Be brief.", quotes=((5, 15),)))
    assert ids.count(end) == 2  # the system's turn and the user's
    assert base.encode(Prompt(text, system="Be brief.")).count(end) == 3


def test_an_adapter_knows_the_base_it_was_made_on(
    tmp_path: Path, other_pawn: Path, pawn: Base
) -> None:
    engine = TorchEngine(load_base("pawn", device="cpu"), 1, lora=LoraConfig(rank=4, alpha=8))
    folder = tmp_path / "adapter"
    save_adapter(engine.read(0), folder, base="pawn", fingerprint=pawn.fingerprint)
    assert base_of(folder) == ("pawn", pawn.fingerprint)
    open_target(tmp_path / "adapter", base="pawn", device="cpu", dtype="bfloat16")
    with pytest.raises(ConfigError, match="other weights than when the members were made"):
        open_target(tmp_path / "adapter", base=str(other_pawn), device="cpu")


def test_loading_a_base_leaves_transformers_progress_bars_as_they_were() -> None:
    from transformers.utils import logging

    assert logging.is_progress_bar_enabled()
    load_base("pawn", device="cpu")
    assert logging.is_progress_bar_enabled()
