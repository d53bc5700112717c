"""Small tokenizers, each built like those of one family, with a chat template in its style."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from redqueen.models.base import PAWN
from redqueen.tasks.code import few_shot, texts

_WORDS = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CHATML = """{%- for message in messages %}
{%- if message.role == 'assistant' and '</think>' in message.content %}
{%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
{%- else %}{%- set content = message.content %}{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}{{- '<|im_start|>assistant\\n' }}{# system #}"""
_LLAMA = """{{- bos_token }}{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{# system #}"""
_GEMMA = """{{- bos_token }}{%- for message in messages %}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' + message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}{{- '<start_of_turn>model\\n' }}"""
_MISTRAL = """{{- bos_token }}{%- for message in messages %}
{{- '[INST] ' + message.content + ' [/INST]' if message.role == 'user' else message.content + eos_token }}
{%- endfor %}"""


def corpus() -> list[str]:
    """Text with the words and marks of real prompts."""
    return [Path(str(module.__file__)).read_text() for module in (texts, few_shot)]


def _add(tokenizer: Tokenizer, special: list[str], other: list[str]) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in other])
    return tokenizer


def _byte_level(normalizer: Any = None, **settings: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**settings))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def _sentencepiece(special: list[str], normalizer: Any) -> Tokenizer:
    """With its special tokens in the vocabulary, and bytes for what it does not know."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=[*special, *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def _chatml() -> PreTrainedTokenizerFast:
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = _add(
        _byte_level(normalizers.NFC()), special, ["<tool_call>", "<think>", "</think>"]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", chat_template=_CHATML
    )


def _llama() -> PreTrainedTokenizerFast:
    special = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer = _add(_byte_level(ignore_merges=True), special, [])
    bos = special[0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, eos_token="<|eot_id|>", chat_template=_LLAMA
    )


def _gemma() -> PreTrainedTokenizerFast:
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    tokenizer = _add(
        _sentencepiece(special, normalizers.Replace(" ", "▁")),
        special,
        ["\n\n", "\n\n\n", "▁▁", "▁▁▁▁", "<table>"],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", chat_template=_GEMMA
    )


def _mistral() -> PreTrainedTokenizerFast:
    special = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
    prepend = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return PreTrainedTokenizerFast(
        tokenizer_object=_add(_sentencepiece(special, prepend), special, []),
        bos_token="<s>",
        eos_token="</s>",
        chat_template=_MISTRAL,
    )


def _unigram() -> PreTrainedTokenizerFast:
    """Its vocabulary takes a special token wherever its text stands, and its normalizer makes one
    of wide characters."""
    special = ["<unk>", "<s>", "</s>", "<|user|>", "<|end|>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=True) for text in special])
    template = (
        "{% for m in messages %}<|user|>{{ m['role'] }}\n{{ m['content'] }}<|end|>{% endfor %}"
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", chat_template=template + "{# system #}"
    )


FAMILIES: dict[str, Callable[[], Any]] = {
    "chatml": _chatml,
    "llama-3": _llama,
    "gemma": _gemma,
    "mistral": _mistral,
    "unigram": _unigram,
    "pawn": lambda: AutoTokenizer.from_pretrained(PAWN),
}


@cache
def tokenizer_of(family: str) -> Any:
    return FAMILIES[family]()
