"""A Pawn as a folder: weights, tokenizer and how it was trained."""

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast

from redqueen.pawn.pretrain import Pretraining, Trained
from redqueen.pawn.tokenizer import END, PAD

_CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""Pawn has no chat: it continues the text it is given."""


def save(trained: Trained, settings: Pretraining, folder: Path) -> None:
    """Write a regular Hugging Face folder, which any tool that loads a Llama can load."""
    folder.mkdir(parents=True, exist_ok=True)
    model = torch.nn.Module.to(trained.model, "cpu", torch.bfloat16)
    model.generation_config = GenerationConfig(
        eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id,
        do_sample=True,
        temperature=1.0,
        max_new_tokens=512,
    )
    model.save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained.tokenizer,
        eos_token=END,
        pad_token=PAD,
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = _CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    start = settings.start and f"sha256:{_checksum(Path(settings.start))}"
    record = {
        "settings": {**asdict(settings), "start": start},
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "documents": trained.documents,
        "tokens": trained.tokens,
        "tokens_before": _tokens_read(Path(settings.start)) if settings.start else 0,
        "loss": round(trained.loss, 4),
        "seconds": round(trained.seconds, 1),
        "waited_s": round(trained.waited_s, 1),
        "torch": torch.__version__,
    }
    (folder / "pretraining.json").write_text(json.dumps(record, indent=2) + "\n")


def _tokens_read(folder: Path) -> int | None:
    """In all parts of a model's training. None: it was continued, and its record does not say what
    came before."""
    record = json.loads((folder / "pretraining.json").read_text())
    before = record.get("tokens_before", None if record["settings"].get("start") else 0)
    return None if before is None else int(record["tokens"]) + int(before)


def _checksum(folder: Path) -> str:
    """Of a model's weights: a folder's name says nothing on another machine."""
    return sha256((folder / "model.safetensors").read_bytes()).hexdigest()
