"""Loads a base: a causal language model from the package, a folder, a GGUF file or the hub, frozen.

Covered: the Llama, Qwen2, Qwen3, Mistral, SmolLM and Gemma families. Quantised weights are
dequantised: they save space on disk, not in memory.
"""

import importlib.util
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

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
from redqueen.models.fingerprint import differ, of_file, of_weights

PAWN = Path(__file__).parent.parent / "pawn" / "weights"
FAMILIES = ("gemma", "gemma2", "gemma3_text", "llama", "mistral", "qwen2", "qwen3", "smollm3")
"""Architectures that are tested, by `model_type` in a model's config."""

Device = str
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
_LOADING_ERRORS = (
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


class Prompt(Protocol):
    """What is to be encoded: `redqueen.tasks.prompts.Prompt`."""

    @property
    def text(self) -> str: ...

    @property
    def system(self) -> str | None: ...

    @property
    def before(self) -> tuple[tuple[str, str], ...]: ...


@dataclass(frozen=True, slots=True)
class Base:
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
        if differ(self.fingerprint, fingerprint):
            raise ConfigError(
                f"the base '{self.name}' has other weights than when the members were made "
                f"({self.fingerprint}, not {fingerprint}), and they are adapters on those. "
                "Say where the right ones are with --base."
            )

    @property
    def prompt_format(self) -> str:
        """The one it understands best: Pawn is trained on `compact`, others are chat models."""
        return "compact" if self.name == "pawn" else "chat"

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Through the chat template if it has a system message, else as it stands."""
        if prompt.system is None:
            return tuple(self._ids(prompt.text))
        if not self.tokenizer.chat_template:
            raise ConfigError(
                f"the base '{self.name}' has no chat template, which the chat prompts need: "
                "use an instruct model, or tasks.prompt_format=compact"
            )
        text = self._apply_template(prompt.system, prompt.before, prompt.text)
        if not all(reply.strip() in text for _, reply in prompt.before):
            # Some templates strip the reasoning from earlier turns: show them as one request.
            earlier = [
                f"{request}\n\nA whole reply to this:\n\n{reply}"
                for request, reply in prompt.before
            ]
            request = "\n\n".join([*earlier, "Now another request.", prompt.text])
            text = self._apply_template(prompt.system, (), request)
        return tuple(self._ids(text))

    def _apply_template(self, system: str, before: Iterable[tuple[str, str]], request: str) -> str:
        messages = [{"role": "system", "content": system}]
        for earlier, reply in before:
            messages += [
                {"role": "user", "content": earlier},
                {"role": "assistant", "content": reply},
            ]
        messages.append({"role": "user", "content": request})
        return str(
            self.tokenizer.apply_chat_template(
                _fold_system(messages, self.tokenizer),
                add_generation_prompt=True,
                tokenize=False,
            )
        )

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def stops(self, texts: Iterable[str]) -> tuple[frozenset[int], tuple[str, ...]]:
        """Stop tokens, and stop texts: those that the model can also spell with several tokens, or
        within a longer one."""
        tokens: set[int] = set()
        config = self.model.generation_config
        for end in (self.tokenizer.eos_token_id, config.eos_token_id if config else None):
            tokens |= set(end) if isinstance(end, list) else {end} if end is not None else set()
        spelled = []
        for text in sorted(set(texts)):
            ids = self._ids(text)
            if len(ids) == 1:
                tokens.add(ids[0])
            if len(ids) != 1 or self._is_part(ids[0]):
                spelled.append(text)
        return frozenset(tokens), tuple(spelled)

    def _is_part(self, token: int) -> bool:
        """Whether other tokens contain this one, as the one of two newlines does that of one."""
        piece = str(self.tokenizer.convert_ids_to_tokens(token))
        return any(piece in other and other != piece for other in self.tokenizer.get_vocab())


def load_base(
    source: str, *, device: Device = "auto", dtype: Dtype = "auto", attention: str | None = None
) -> Base:
    """`pawn`, a folder, a `.gguf` file, or a model's name on the hub. Weights are frozen and in
    evaluation mode.

    The default dtype is bfloat16 on a GPU and float32 on a CPU: few CPUs compute in bfloat16, and
    on the others it is hundreds of times slower. The default attention is transformers' choice:
    `sdpa`, but `eager` for Gemma 2.
    """
    picked = pick_device(device)
    torch_dtype = torch.bfloat16 if picked.type == "cuda" else torch.float32
    if dtype != "auto":
        torch_dtype = getattr(torch, dtype)
    place = _locate(source)
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
                dtype=torch_dtype,
                attn_implementation=attention,
                output_loading_info=True,
                **gguf,
                **dequantize,
            )
    except _LOADING_ERRORS as error:
        raise ConfigError(_explain_failure(source, place, error)) from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):  # transformers would leave them random
        raise ConfigError(
            f"the base '{source}' is not complete: {len(missing)} of its weights are in no file "
            f"of it, such as {missing[0]}"
        )
    if place.gguf:
        _tie_embeddings(model)
    model.requires_grad_(False).eval().to(picked)
    return Base(
        place.name,
        model,
        tokenizer,
        of_file(Path(place.target, place.gguf)) if place.gguf else of_weights(model),
    )


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
            "--device cuda: torch sees no GPU here. Leave --device out to run on the CPU, "
            "or see `redqueen doctor`."
        )
    return picked


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a base is."""

    name: str
    target: str
    """What transformers is to load: a folder, or a name on the hub."""
    gguf: str = ""
    """The file in the folder, if it is a GGUF."""
    on_hub: bool = False


def _locate(source: str) -> _Place:
    path = Path(source).expanduser()
    if source == "pawn":
        return _Place("pawn", str(PAWN))
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ConfigError(f"there is no file {path}")
        if importlib.util.find_spec("gguf") is None:
            raise ConfigError("a .gguf base needs the package gguf: pip install 'redqueen[gguf]'")
        return _Place(path.stem, str(path.parent), gguf=path.name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ConfigError(
                f"{path} is a folder without config.json: not a model in the Hugging Face format"
            )
        # A folder that `redqueen pawn train` made is a Pawn too.
        is_pawn = (path / "pretraining.json").is_file()
        return _Place("pawn" if is_pawn else path.name, str(path))
    if source.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(source):
        raise ConfigError(
            f"there is no folder {path}, and '{source}' cannot be a name on the hub "
            "(those look like owner/model)"
        )
    if "/" not in source:
        raise ConfigError(
            unknown("base", source, ["pawn"])
            + " Others are given as a folder, a .gguf file, or owner/model on the hub."
        )
    return _Place(source, source, on_hub=True)


def _explain_failure(source: str, place: _Place, error: Exception) -> str:
    message = " ".join(str(error).split())[:300] or type(error).__name__
    if not place.on_hub:
        return f"the base '{source}' could not be loaded from {place.target}: {message}"
    offline = " HF_HUB_OFFLINE is set: only the cache was looked at." if HF_HUB_OFFLINE else ""
    return (
        f"the base '{source}' is no folder here, and could not be had from the model hub or its "
        f"cache in {HF_HUB_CACHE}: {message}{offline}\n"
        "Check the name and the network; log in if the model is gated; or download it elsewhere "
        "and give its folder. `pawn` needs no network."
    )


def _fold_system(
    messages: list[dict[str, str]], tokenizer: PreTrainedTokenizerBase
) -> list[dict[str, str]]:
    """Some templates (Gemma's) have no system role: the text goes before the first request."""
    template = str(tokenizer.chat_template)
    if "system" in template and "System role not supported" not in template:
        return messages
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]


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
