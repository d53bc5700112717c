"""Loading a base: a causal language model from the package, a folder, a GGUF file or the hub, ready
to be run but never trained itself.

Covered: the Llama, Qwen2, Qwen3, Mistral, SmolLM and Gemma families. Quantised weights are
expanded: they are read, not run, as such.
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
"""Architectures that are known to work, by the name they have in a model's config."""

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
"""What the loaders of others make of files that are missing or bad."""
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
    """Of the weights as they were loaded: an engine lays them out anew."""

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
        """Raises where members that were made on weights of this fingerprint do not fit these."""
        if differ(self.fingerprint, fingerprint):
            raise ConfigError(
                f"the base '{self.name}' has other weights than when the members were made ({self.fingerprint}, not {fingerprint}), and they are "
                "adapters on those. Say where the right ones are with --base."
            )

    @property
    def prompt_format(self) -> str:
        """The prompt prompt_format this base understands: Pawn was made for one, others are talked to."""
        return "compact" if self.name == "pawn" else "chat"

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Through the chat template if it has a system message, else as it stands."""
        if prompt.system is None:
            return tuple(self._ids(prompt.text))
        if not self.tokenizer.chat_template:
            raise ConfigError(
                f"the base '{self.name}' has no chat template, which the chat prompts need: use an instruct model, or tasks.prompt_format=compact"
            )
        text = self._chat(prompt.system, prompt.before, prompt.text)
        if not all(
            replied.strip() in text for _, replied in prompt.before
        ):  # some templates leave thoughts out of earlier replies
            earlier = [
                f"{asked}\n\nA whole reply to this:\n\n{replied}"
                for asked, replied in prompt.before
            ]
            text = self._chat(
                prompt.system, (), "\n\n".join([*earlier, "Now another request.", prompt.text])
            )
        return tuple(self._ids(text))

    def _chat(self, system: str, before: Iterable[tuple[str, str]], asked: str) -> str:
        messages = [{"role": "system", "content": system}]
        for question, reply in before:
            messages += [
                {"role": "user", "content": question},
                {"role": "assistant", "content": reply},
            ]
        messages.append({"role": "user", "content": asked})
        return str(
            self.tokenizer.apply_chat_template(
                _without_system(messages, self.tokenizer),
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
        """Tokens that end a reply, and those of the texts that can be written in another way than
        by one token of this model."""
        found: set[int] = set()
        config = self.model.generation_config
        for value in (self.tokenizer.eos_token_id, config.eos_token_id if config else None):
            found |= (
                set(value) if isinstance(value, list) else {value} if value is not None else set()
            )
        spelled = []
        for text in sorted(set(texts)):
            ids = self._ids(text)
            found |= set(ids) if len(ids) == 1 else set()
            spelled += [] if len(ids) == 1 and not self._is_part(ids[0]) else [text]
        return frozenset(found), tuple(spelled)

    def _is_part(self, token: int) -> bool:
        """Whether other tokens contain this one, as that of two new lines does that of one."""
        piece = str(self.tokenizer.convert_ids_to_tokens(token))
        return any(piece in other and other != piece for other in self.tokenizer.get_vocab())


def load_base(
    source: str, *, device: Device = "auto", dtype: Dtype = "auto", attention: str | None = None
) -> Base:
    """`pawn`, a folder, a `.gguf` file, or a model's name on the hub. Weights are frozen and in
    evaluation mode.

    On a GPU the default is bfloat16, on a CPU float32: few CPUs calculate in bfloat16, and on the
    others it is hundreds of times slower. Attention is by default the fastest that the architecture
    has: `sdpa`, but `eager` for Gemma 2.
    """
    where = pick_device(device)
    kind = torch.bfloat16 if where.type == "cuda" else torch.float32
    if dtype != "auto":
        kind = getattr(torch, dtype)
    place = _locate(source)
    extra: dict[str, Any] = {"gguf_file": place.gguf} if place.gguf else {}
    expand = {"quantization_config": GgufConfig(dequantize=True)} if place.gguf else {}
    try:
        with _without_progress_bars():
            config = AutoConfig.from_pretrained(place.target, **extra)
            if config.model_type not in FAMILIES:
                raise ConfigError(
                    f"the base '{source}' is of the family '{config.model_type}'; "
                    f"the ones that work: {', '.join(FAMILIES)}"
                )
            tokenizer = AutoTokenizer.from_pretrained(place.target, **extra)
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                place.target,
                dtype=kind,
                attn_implementation=attention,
                output_loading_info=True,
                **extra,
                **expand,
            )
    except _LOADING_ERRORS as error:
        raise ConfigError(_failure(source, place, error)) from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):  # transformers would leave them random
        raise ConfigError(
            f"the base '{source}' is not complete: {len(missing)} of its weights are in no file "
            f"of it, such as {missing[0]}"
        )
    if place.gguf:
        _tie_twins(model)
    model.requires_grad_(False).eval().to(where)
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
        found = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"unknown device '{device}': auto, cpu, cuda or cuda:1") from error
    if found.type not in ("cpu", "cuda"):
        raise ConfigError(f"the device '{device}' is not supported: auto, cpu, cuda or cuda:1")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "--device cuda: torch sees no GPU here. Leave --device out to run on the CPU, "
            "or see `redqueen doctor`."
        )
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a base is."""

    name: str
    target: str
    """A folder, or a name on the hub: what transformers is to load."""
    gguf: str = ""
    """The file in the folder, where it is a GGUF."""
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
        return _Place(_own_name(path), str(path))
    if source.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(source):
        raise ConfigError(
            f"there is no folder {path}, and '{source}' cannot be a name on the hub (those look like owner/model)"
        )
    if "/" not in source:
        raise ConfigError(
            unknown("base", source, ["pawn"])
            + " Others are given as a folder, a .gguf file, or owner/model on the hub."
        )
    return _Place(source, source, on_hub=True)


def _own_name(folder: Path) -> str:
    """A folder that `redqueen pawn train` made is a Pawn too."""
    return "pawn" if (folder / "pretraining.json").is_file() else folder.name


def _failure(source: str, place: _Place, error: Exception) -> str:
    said = " ".join(str(error).split())[:300] or type(error).__name__
    if not place.on_hub:
        return f"the base '{source}' could not be loaded from {place.target}: {said}"
    offline = " HF_HUB_OFFLINE is set: only the cache was looked at." if HF_HUB_OFFLINE else ""
    return (
        f"the base '{source}' is no folder here, and could not be had from the model hub or its cache in {HF_HUB_CACHE}: {said}{offline}\n"
        "Check the name and the network; log in if the model is gated; or download it elsewhere and give its folder. `pawn` needs no network."
    )


def _without_system(
    messages: list[dict[str, str]], tokenizer: PreTrainedTokenizerBase
) -> list[dict[str, str]]:
    """Some templates (Gemma's) have no place for a system text: it goes before the first question."""
    if "system" in str(tokenizer.chat_template) and "System role not supported" not in str(
        tokenizer.chat_template
    ):
        return messages
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]


def _tie_twins(model: PreTrainedModel) -> None:
    """Some GGUF files hold a tied embedding twice, quantised apart. The output's copy is the better
    one: both become it."""
    inside: Any = model.get_input_embeddings()
    outside: Any = model.get_output_embeddings()
    if (
        inside is None
        or outside is None
        or inside.weight is outside.weight
        or inside.weight.shape != outside.weight.shape
    ):
        return
    sample_in, sample_out = (
        inside.weight[:4096].float().flatten(),
        outside.weight[:4096].float().flatten(),
    )
    if torch.nn.functional.cosine_similarity(sample_in, sample_out, dim=0) > 0.98:
        inside.weight = outside.weight
        model.config.tie_word_embeddings = True
