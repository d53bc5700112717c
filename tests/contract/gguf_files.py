"""Small GGUF files of the family qwen2, and the same weights in a folder."""

import json
from pathlib import Path
from typing import Any

import gguf
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.contract.tokenizers import tokenizer_of

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{name}_proj": f"attn_{name}" for name in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{name}_proj": f"ffn_{name}" for name in ("gate", "up", "down")},
}
_SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}


def qwen_model(seed: int) -> Any:
    """Random weights that have eight bits each, as most published ones."""
    torch.manual_seed(seed)
    size = len(tokenizer_of("chatml"))
    config = AutoConfig.for_model("qwen2", vocab_size=size, **_SHAPE)
    return AutoModelForCausalLM.from_config(config).to(torch.bfloat16).float()


def save_folder(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer_of("chatml").save_pretrained(folder)
    return folder


def save_gguf(
    model: Any, path: Path, quantisation: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32
) -> Path:
    """As llama.cpp writes it: matrices quantised, vectors not."""
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(_SHAPE["num_hidden_layers"])
    writer.add_context_length(_SHAPE["max_position_embeddings"])
    writer.add_embedding_length(_SHAPE["hidden_size"])
    writer.add_feed_forward_length(_SHAPE["intermediate_size"])
    writer.add_head_count(_SHAPE["num_attention_heads"])
    writer.add_head_count_kv(_SHAPE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(_SHAPE["rms_norm_eps"])
    writer.add_rope_freq_base(10_000.0)
    _add_tokenizer(writer)
    for name, weight in model.state_dict().items():
        data = weight.numpy()
        kind = quantisation if weight.dim() == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(_tensor_name(name), gguf.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    tokenizer = tokenizer_of("chatml")
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    added = tokenizer.get_added_vocab()
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [gguf.TokenType.CONTROL if token in added else gguf.TokenType.NORMAL for token in tokens]
    )
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_chat_template(tokenizer.chat_template)


def _tensor_name(name: str) -> str:
    place, _, end = name.rpartition(".")
    if place.startswith("model.layers."):
        _, _, block, part = place.split(".", 3)
        return f"blk.{block}.{_NAMES[part]}.{end}"
    return f"{_NAMES[place]}.{end}"
