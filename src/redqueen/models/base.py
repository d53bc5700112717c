"""Loads a base: a causal language model from the package, a folder, a GGUF file or the hub, frozen.

Covered: the Llama, Qwen2, Qwen3, Mistral, SmolLM and Gemma families. Quantised weights are
dequantised: they save space on disk, not in memory.
"""

import importlib.util
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from redqueen.errors import ConfigError, unknown
from redqueen.models.bundled import BUNDLED
from redqueen.models.fingerprint import fingerprint_of, kind_of
from redqueen.models.prompt_tokenizer import PromptTokenizer, TokenizerOnly
from redqueen.models.unpacked import find_unpacked, keep_unpacked

log = logging.getLogger(__name__)

PAWN = BUNDLED["pawn"]
FAMILIES = ("gemma", "gemma2", "gemma3_text", "llama", "mistral", "qwen2", "qwen3", "smollm3")
"""Architectures that are tested, by `model_type` in a model's config."""

Device = str
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
LOADING_ERRORS = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    RuntimeError,
    AttributeError,
    ImportError,
    SafetensorError,
)
"""What transformers and safetensors raise for files that are missing or damaged."""
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class Base(PromptTokenizer):
    """A frozen model with its tokenizer."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    fingerprint: str = ""
    """Of the weights as they were loaded."""

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.model.parameters())

    def check(self, fingerprint: str) -> None:
        """Raise if adapters trained on weights with this fingerprint do not fit these."""
        kind = kind_of(fingerprint)
        if not kind:
            return
        own = self.fingerprint
        if kind_of(own) != kind:
            own = fingerprint_of(self.model, kind)
        if own == fingerprint:
            return
        rounded = self.dtype not in (torch.float32, getattr(torch, kind))
        raise ConfigError(
            f"the base '{self.name}' has other weights than when the members were made "
            f"({own}, not {fingerprint}), and they are adapters on those. "
            "Say where the right ones are with --base."
            + (f" If they are these, load them in {kind}, as they were then." if rounded else "")
        )

    @property
    def end_tokens(self) -> frozenset[int]:
        tokens: set[int] = set()
        config = self.model.generation_config
        for end in (self.tokenizer.eos_token_id, config.eos_token_id if config else None):
            tokens |= set(end) if isinstance(end, list) else {end} if end is not None else set()
        return frozenset(tokens)


def load_base(
    source: str, *, device: Device = "auto", dtype: Dtype = "auto", attention: str | None = None
) -> Base:
    """`pawn`, `pawn-games`, a folder, a `.gguf` file, or a model's name on the hub. Weights are
    frozen and in evaluation mode.

    The default dtype is bfloat16 on a GPU and float32 on a CPU: few CPUs compute in bfloat16, and
    on the others it is hundreds of times slower. The default attention is transformers' choice:
    `sdpa`, but `eager` for Gemma 2.
    """
    picked = pick_device(device)
    torch_dtype = torch.bfloat16 if picked.type == "cuda" else torch.float32
    if dtype != "auto":
        torch_dtype = getattr(torch, dtype)
    place = locate(source)
    file = Path(place.target, place.gguf)
    base = None
    if place.gguf and (kept := find_unpacked(file, torch_dtype)):
        folder, fingerprint = kept
        with suppress(ConfigError):
            base = _load(
                source, replace(place, target=str(folder), gguf=""), torch_dtype, attention
            )
        if base is None or base.fingerprint != fingerprint:
            log.warning("%s is damaged: %s is unpacked once more", folder, file.name)
            base = None
    if base is None:
        if place.gguf:
            log.info("unpacking %s (%.1f GB)", file, file.stat().st_size / 1e9)
        base = _load(source, place, torch_dtype, attention)
        if place.gguf:
            with _without_progress_bars():
                keep_unpacked(file, base.model, base.tokenizer, base.fingerprint)
    torch.nn.Module.to(base.model, picked)
    return base


def _load(source: str, place: "Place", dtype: torch.dtype, attention: str | None) -> Base:
    """On the CPU."""
    gguf: dict[str, Any] = {"gguf_file": place.gguf} if place.gguf else {}
    dequantize = {"quantization_config": GgufConfig(dequantize=True)} if place.gguf else {}
    try:
        with _without_progress_bars():
            config = AutoConfig.from_pretrained(place.target, **gguf)
            if config.model_type not in FAMILIES:
                raise ConfigError(
                    f"the base '{source}' is of the family '{config.model_type}'; "
                    f"the ones that work: {', '.join(FAMILIES)}"
                )
            tokenizer = AutoTokenizer.from_pretrained(place.target, **gguf)
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                place.target,
                dtype=dtype,
                attn_implementation=attention,
                output_loading_info=True,
                **gguf,
                **dequantize,
            )
    except LOADING_ERRORS as error:
        raise ConfigError(explain_failure(source, place, error)) from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):  # transformers would leave them random
        raise ConfigError(
            f"the base '{source}' is not complete: {len(missing)} of its weights are in no file "
            f"of it, such as {missing[0]}"
        )
    if place.gguf:
        _tie_embeddings(model)
    model.requires_grad_(False).eval()
    return Base(place.name, model, tokenizer, fingerprint_of(model))


def load_tokenizer(source: str, end_tokens: frozenset[int]) -> TokenizerOnly:
    """The tokenizer of a base whose weights are loaded elsewhere; whoever has them knows its end
    tokens."""
    place = locate(source)
    gguf: dict[str, Any] = {"gguf_file": place.gguf} if place.gguf else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(place.target, **gguf)
    except LOADING_ERRORS as error:
        raise ConfigError(explain_failure(source, place, error)) from error
    return TokenizerOnly(place.name, tokenizer, end_tokens)


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Within: transformers shows none, as they would mix with ours."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def pick_device(device: Device) -> torch.device:
    """`auto` is the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        picked = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"unknown device '{device}': auto, cpu, cuda or cuda:1") from error
    if picked.type not in ("cpu", "cuda"):
        raise ConfigError(f"the device '{device}' is not supported: auto, cpu, cuda or cuda:1")
    if picked.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"the device is '{device}', and torch sees no GPU here. `--device cpu` takes the CPU, "
            "which is for small models; `redqueen doctor` says what torch sees."
        )
    return picked


@dataclass(frozen=True, slots=True)
class Place:
    """Where a base is."""

    name: str
    target: str
    """What transformers is to load: a folder, or a name on the hub."""
    gguf: str = ""
    """The file in the folder, if it is a GGUF."""
    on_hub: bool = False


def locate(source: str) -> Place:
    path = Path(source).expanduser()
    if not source:
        raise ConfigError(
            "no base is named: `pawn`, `pawn-games`, a folder, a .gguf file, or owner/model"
        )
    if source in BUNDLED:
        if not (BUNDLED[source] / "config.json").is_file():
            raise ConfigError(
                f"the base '{source}' is not in {BUNDLED[source]}: install the package again"
            )
        return Place(source, str(BUNDLED[source]))
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ConfigError(f"there is no file {path}")
        if importlib.util.find_spec("gguf") is None:
            raise ConfigError("a .gguf base needs the package gguf: pip install 'redqueen[gguf]'")
        return Place(path.stem, str(path.parent), gguf=path.name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ConfigError(
                f"{path} is a folder without config.json: not a model in the Hugging Face format"
            )
        bundled = {folder.resolve(): name for name, folder in BUNDLED.items()}
        # A folder that `redqueen pawn train` made is a Pawn too.
        is_pawn = (path / "pretraining.json").is_file()
        name = bundled.get(path.resolve(), "pawn" if is_pawn else path.name)
        return Place(name, str(path))
    if source.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(source):
        raise ConfigError(
            f"there is no folder {path}, and '{source}' cannot be a name on the hub "
            "(those look like owner/model)"
        )
    if "/" not in source:
        raise ConfigError(
            unknown("base", source, list(BUNDLED))
            + " Others are given as a folder, a .gguf file, or owner/model on the hub."
        )
    return Place(source, source, on_hub=True)


def explain_failure(source: str, place: Place, error: Exception) -> str:
    message = " ".join(str(error).split())[:300] or type(error).__name__
    if not place.on_hub:
        return f"the base '{source}' could not be loaded from {place.target}: {message}"
    offline = " HF_HUB_OFFLINE is set: only the cache was looked at." if HF_HUB_OFFLINE else ""
    return (
        f"the base '{source}' is not a folder here, and could not be had from the model hub or its "
        f"cache in {HF_HUB_CACHE}: {message}{offline}\n"
        "Check the name and the network; log in if the model is gated; or download it elsewhere "
        "and give its folder. `pawn` needs no network."
    )


def _tie_embeddings(model: PreTrainedModel) -> None:
    """Some GGUF files hold a tied embedding twice, quantised differently. The output's copy has
    more bits: both become it."""
    embedding: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    if (
        embedding is None
        or head is None
        or embedding.weight is head.weight
        or embedding.weight.shape != head.weight.shape
    ):
        return
    first, second = (module.weight[:4096].float().flatten() for module in (embedding, head))
    if torch.nn.functional.cosine_similarity(first, second, dim=0) > 0.98:
        embedding.weight = head.weight
        model.config.tie_word_embeddings = True
