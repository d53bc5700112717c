"""Pre-training Pawn, from nothing or on from one that is there: documents made on every core while
the model learns, each seen once.

Reads top to bottom: settings, the stream of documents, rows of tokens, the loop, the folder. Two
trainings with the same settings see the same tokens in the same order, whatever the number of
processes, and on a CPU end with the same weights to the bit; a GPU is asked to do so, too.
"""

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn.functional import scaled_dot_product_attention
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from redqueen.pawn.reading import Reading, Rows
from redqueen.pawn.tokenizer import END, END_ID, PAD, PAD_ID, VOCABULARY, train_tokenizer

_CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""Pawn has no chat: what it is told, it continues."""


@dataclass(frozen=True, slots=True)
class Pretraining:
    seed: int = 0
    start: str = ""
    """The model to read on from: a folder; empty: none. Size and tokenizer are then its own."""
    tokenizer_shards: int = 24
    """Shards of documents that the vocabulary is found from."""
    hidden: int = 256
    layers: int = 6
    head: int = 32
    """Size of an attention head."""
    key_heads: int = 2
    """Heads of keys and values, each shared by several of queries: what is kept of a token is what
    sampling has to read again."""
    tokens: int = 900_000_000
    """Tokens to learn from, padding not counted."""
    thought_share: float = 0.4
    """Share of the answers of deduction that come with their thought. Under a half: to think first
    is then left to be found out."""
    row_tokens: int = 1024
    batch_rows: int = 64
    learning_rate: float = 2.5e-3
    prompt_weight: float = 0.3
    """What a token of a question counts for, beside one of an answer."""
    sharpness: float = 1.25
    """What the logits are multiplied with at the end: sampling at temperature 1 is then as at 0.8
    before, and slips less often."""
    warmup_frac: float = 0.02
    weight_decay: float = 0.1
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class Trained:
    """What came of a pre-training."""

    model: LlamaForCausalLM
    tokenizer: Tokenizer
    documents: int
    tokens: int
    loss: float
    seconds: float
    waited_s: float
    """Of the seconds: how long the model waited for documents."""


Report = Callable[[int, float], None]
"""Told the tokens so far and the loss, now and then."""


def pretrain(
    settings: Pretraining, excluded: frozenset[str], device: str, workers: int, report: Report
) -> Trained:
    """Train. No program whose key is excluded is ever seen."""
    started = time.monotonic()
    torch.manual_seed(settings.seed)
    with (
        _repeatable(),
        Reading(settings.seed, excluded, workers, settings.thought_share) as reading,
    ):
        model: LlamaForCausalLM = torch.nn.Module.to(_first(settings), device)
        learner = _Learner(model, settings)
        own = Path(settings.start, "tokenizer.json")
        tokenizer = (
            Tokenizer.from_file(str(own))
            if settings.start
            else train_tokenizer(reading.of_tokenizer(settings.tokenizer_shards))
        )
        assert tokenizer.get_vocab_size() <= VOCABULARY
        tokens, loss = learner.learn(
            reading.batches(tokenizer, settings.batch_rows, settings.row_tokens + 1),
            tokenizer,
            report,
        )
        with torch.no_grad():
            model.model.norm.weight *= settings.sharpness
        model.set_attn_implementation("sdpa")  # the other one is for whole rows only
        return Trained(
            model,
            tokenizer,
            reading.documents,
            tokens,
            loss,
            time.monotonic() - started,
            reading.waited_s,
        )


@contextmanager
def _repeatable() -> Iterator[None]:
    """Within: sums are added up in the same order every time. Small differences grow to points of
    accuracy in ten thousand steps."""
    memory: Any = torch.utils.deterministic
    before = (
        torch.are_deterministic_algorithms_enabled(),
        memory.fill_uninitialized_memory,
        torch.backends.cuda.cudnn_sdp_enabled(),
    )
    os.environ.setdefault(
        "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
    )  # read once, at the first product on a GPU
    torch.use_deterministic_algorithms(
        True
    )  # only to warn would leave attention's backward pass as it is
    memory.fill_uninitialized_memory = False  # nothing here reads what it has not written
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        memory.fill_uninitialized_memory = before[1]
        torch.backends.cuda.enable_cudnn_sdp(before[2])


def _first(settings: Pretraining) -> LlamaForCausalLM:
    if not settings.start:
        return LlamaForCausalLM(architecture(settings))
    model: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(settings.start, dtype=torch.float32)
    with torch.no_grad():
        model.model.norm.weight /= settings.sharpness  # as it was before it was sharpened
    return model


def architecture(settings: Pretraining) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=settings.hidden,
        intermediate_size=settings.hidden * 8 // 3 // 32 * 32,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.hidden // settings.head,
        num_key_value_heads=math.gcd(settings.hidden // settings.head, settings.key_heads),
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END_ID,
        pad_token_id=PAD_ID,
    )


def _causal(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Attention to all that stands before, and no mask that says so: a compiled model would be
    given one, and with a mask there is no fast kernel."""
    found = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    return found.transpose(1, 2).contiguous(), None


_ATTENTION = "redqueen-causal"
ALL_ATTENTION_FUNCTIONS.register(_ATTENTION, _causal)
ALL_MASK_ATTENTION_FUNCTIONS.register(_ATTENTION, lambda *args, **more: None)


class _Learner:
    """The model and what trains it."""

    def __init__(self, model: LlamaForCausalLM, settings: Pretraining) -> None:
        self.model, self.settings = model, settings
        self.cuda = model.device.type == "cuda"
        decayed = [weight for weight in model.parameters() if weight.dim() > 1]
        plain = [weight for weight in model.parameters() if weight.dim() <= 1]
        groups = [
            {"params": decayed, "weight_decay": settings.weight_decay},
            {"params": plain, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=settings.learning_rate, betas=(0.9, 0.95), fused=self.cuda
        )
        self.forward: Callable[..., Any] = model
        model.set_attn_implementation(_ATTENTION)
        if self.cuda:
            self.forward = torch.compile(model, options={"deterministic": True})
            try:
                self._try()  # compiled before the documents begin to be made: that takes every core
            except RuntimeError as error:
                if "deterministic" not in str(error):
                    raise
                warnings.warn(
                    f"on this GPU two trainings end with different weights: {error}", stacklevel=2
                )
                torch.use_deterministic_algorithms(True, warn_only=True)
                self._try()

    def _try(self) -> None:
        """A step that changes nothing."""
        rows = torch.zeros(
            self.settings.batch_rows,
            self.settings.row_tokens + 1,
            dtype=torch.long,
            device=self.model.device,
        )
        self.loss(rows, (0, 0)).backward()
        self.optimizer.zero_grad(set_to_none=True)

    def learn(
        self, batches: Iterator[Rows], tokenizer: Tokenizer, report: Report
    ) -> tuple[int, float]:
        """The tokens that were read, and the loss, averaged over about the last fifty batches."""
        settings = self.settings
        asked = _token(tokenizer, ">>new"), _token(tokenizer, ">>answer")
        seen, last_report = 0, 0.0
        average = torch.zeros((), device=self.model.device)
        for batch in batches:
            for group in self.optimizer.param_groups:
                group["lr"] = settings.learning_rate * _schedule(
                    seen / settings.tokens, settings.warmup_frac
                )
            loss = self.loss(
                torch.from_numpy(batch.astype(np.int64)).to(self.model.device, non_blocking=True),
                asked,
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            average = average + (loss.detach() - average) * (1.0 if seen == 0 else 0.02)
            seen += int((batch != PAD_ID).sum())
            if time.monotonic() - last_report > 1 or seen >= settings.tokens:
                report(min(seen, settings.tokens), average.item())
                last_report = time.monotonic()
            if seen >= settings.tokens:
                break
        return seen, average.item()

    def loss(self, tokens: torch.Tensor, asked: tuple[int, int]) -> torch.Tensor:
        """Cross-entropy of the next token. What a document asks counts for less than what it
        answers: most of it is chance."""
        given, wanted = tokens[:, :-1], tokens[:, 1:]
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.cuda):
            looked_up = self.model.model.embed_tokens(
                given
            )  # compiled with the rest, its gradient takes longer to add up in a fixed order
            logits = self.forward(inputs_embeds=looked_up).logits
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), wanted.flatten(), reduction="none"
        )
        begun = ((given == asked[0]) | (given == asked[1])).int().cumsum(1)
        ended = (given == END_ID).int().cumsum(1)
        weights = torch.where(begun > ended, 1.0, self.settings.prompt_weight) * (wanted != PAD_ID)
        return (losses * weights.flatten()).sum() / weights.sum().clamp(min=1)


def _token(tokenizer: Tokenizer, mark: str) -> int:
    found = tokenizer.token_to_id(mark)
    assert found is not None
    return found


def _schedule(done: float, warmup: float) -> float:
    """Up for a short while, flat, then down to nothing over the last half."""
    return min(done / warmup + 0.01, 1.0, 2 * (1 - done) + 0.01)


# the folder


def save(trained: Trained, settings: Pretraining, folder: Path) -> None:
    """An ordinary Hugging Face folder: any tool that loads a Llama loads it."""
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
    record = {
        "settings": asdict(settings),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "documents": trained.documents,
        "tokens": trained.tokens,
        "loss": round(trained.loss, 4),
        "seconds": round(trained.seconds, 1),
        "waited_s": round(trained.waited_s, 1),
        "torch": torch.__version__,
    }
    (folder / "pretraining.json").write_text(json.dumps(record, indent=2) + "\n")
