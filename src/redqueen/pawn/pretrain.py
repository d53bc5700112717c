"""Pre-training of Pawn, from scratch or from an earlier Pawn: documents are generated on every core
while the model trains, and each is seen once.

Two trainings with the same settings see the same tokens in the same order, with any number of
processes, and end with bit-equal weights on a CPU; on a GPU, too, where deterministic kernels
exist.
"""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from redqueen.errors import ConfigError
from redqueen.pawn.loader import DocumentLoader, Rows
from redqueen.pawn.tokenizer import END_ID, PAD_ID, VOCABULARY, train_tokenizer

MAX_SHARES = 0.9
"""Critiques and puzzles together: critiques, too, are about the programs of a shard."""


@dataclass(frozen=True, slots=True)
class Pretraining:
    seed: int = 0
    start: str = ""
    """Folder of the model to continue from, with its size and tokenizer; empty: from scratch."""
    tokenizer_shards: int = 24
    """Shards of documents that the tokenizer is trained on."""
    hidden: int = 256
    layers: int = 6
    head: int = 32
    """Size of an attention head."""
    key_heads: int = 2
    """Key-value heads, each shared by several query heads: a smaller KV cache is less for every
    decode step to read."""
    tokens: int = 900_000_000
    """Tokens to train on, without padding."""
    reasoning_share: float = 0.4
    """Share of deduction answers that come with reasoning. Below a half, so that reasoning first
    remains for a run to discover."""
    reasoning_tier: int = 10
    """Highest tier whose answers come with reasoning. Below 10, reasoning about longer programs
    remains for a run to learn."""
    solving_tier: int = 10
    """Highest tier that is solved in documents. Below 10, harder problems are posed only: solving
    them remains for a run to learn."""
    careful_share: float = 0.0
    """Share of the steps of a reasoning that are worked out. Below a half, so that greedy answers
    work nothing out, and care remains for a run to learn."""
    critique_share: float = 0.0
    """Share of documents that are turns of the games `critique` and `repair`."""
    logic_share: float = 0.0
    """Share of documents that solve or propose a logic puzzle."""
    turn_reasoning_share: float = 0.4
    """Share of critiques, repairs and solved puzzles that come with reasoning. Below a half, so
    that checking by working it out remains for a run to discover."""
    row_tokens: int = 1024
    batch_rows: int = 64
    learning_rate: float = 2.5e-3
    prompt_weight: float = 0.3
    """Loss weight of a prompt token; a token of an answer has 1."""
    sharpness: float = 1.25
    """Factor on the logits after training: sampling at temperature 1 is then what sampling at 0.8
    was before, with fewer slips."""
    warmup_frac: float = 0.02
    weight_decay: float = 0.1
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a pre-training."""

    model: LlamaForCausalLM
    tokenizer: Tokenizer
    documents: int
    tokens: int
    loss: float
    seconds: float
    waited_s: float
    """How many of the seconds the model waited for documents."""


Report = Callable[[int, float], None]
"""Called about once a second with the tokens so far and the loss."""


def pretrain(
    settings: Pretraining, excluded: frozenset[str], device: str, workers: int, report: Report
) -> Trained:
    """Train. Programs with an excluded key are never seen."""
    if settings.critique_share + settings.logic_share > MAX_SHARES:
        raise ConfigError(
            f"critique_share and logic_share are {settings.critique_share:g} and "
            f"{settings.logic_share:g}: together at most {MAX_SHARES:g}, the rest is about programs"
        )
    started = time.monotonic()
    torch.manual_seed(settings.seed)
    with (
        _deterministic(),
        DocumentLoader(
            settings.seed,
            excluded,
            workers,
            settings.reasoning_share,
            settings.reasoning_tier,
            settings.solving_tier,
            settings.careful_share,
            settings.critique_share,
            settings.logic_share,
            settings.turn_reasoning_share,
        ) as loader,
    ):
        model: LlamaForCausalLM = torch.nn.Module.to(_initial_model(settings), device)
        trainer = _Trainer(model, settings)
        if settings.start:
            tokenizer = Tokenizer.from_file(str(Path(settings.start, "tokenizer.json")))
        else:
            tokenizer = train_tokenizer(loader.tokenizer_documents(settings.tokenizer_shards))
        assert tokenizer.get_vocab_size() <= VOCABULARY
        batches = loader.batches(tokenizer, settings.batch_rows, settings.row_tokens + 1)
        tokens, loss = trainer.train(batches, tokenizer, report)
        with torch.no_grad():
            model.model.norm.weight *= settings.sharpness
        model.set_attn_implementation("sdpa")  # that of training is for whole rows only
        seconds = time.monotonic() - started
        return Trained(model, tokenizer, loader.documents, tokens, loss, seconds, loader.waited_s)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Reductions in a fixed order: rounding differences grow to points of accuracy over ten
    thousand steps."""
    memory: Any = torch.utils.deterministic
    before = (
        torch.are_deterministic_algorithms_enabled(),
        memory.fill_uninitialized_memory,
        torch.backends.cuda.cudnn_sdp_enabled(),
    )
    # read once, at the first matrix product on a GPU
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # not warn_only, which would keep the nondeterministic backward pass of attention
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # nothing here reads uninitialised memory
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        memory.fill_uninitialized_memory = before[1]
        torch.backends.cuda.enable_cudnn_sdp(before[2])


def _initial_model(settings: Pretraining) -> LlamaForCausalLM:
    if not settings.start:
        return LlamaForCausalLM(architecture(settings))
    model: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(settings.start, dtype=torch.float32)
    with torch.no_grad():
        model.model.norm.weight /= settings.sharpness  # undo the sharpening
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


def _attend_causally(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention without a mask tensor: transformers would pass one to a compiled model, and
    with a mask there is no fast kernel. Tensors are [batch, head, position, head size]."""
    output = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    return output.transpose(1, 2).contiguous(), None


def _use_causal_attention(model: LlamaForCausalLM) -> None:
    """Register the attention above with transformers, and choose it for this model."""
    name = "redqueen-causal"
    ALL_ATTENTION_FUNCTIONS.register(name, _attend_causally)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, lambda *args, **more: None)
    model.set_attn_implementation(name)


class _Trainer:
    """The model, its optimizer and the training loop."""

    def __init__(self, model: LlamaForCausalLM, settings: Pretraining) -> None:
        self.model, self.settings = model, settings
        self.cuda = model.device.type == "cuda"
        decayed = [weight for weight in model.parameters() if weight.dim() > 1]
        others = [weight for weight in model.parameters() if weight.dim() <= 1]
        groups = [
            {"params": decayed, "weight_decay": settings.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=settings.learning_rate, betas=(0.9, 0.95), fused=self.cuda
        )
        self.forward: Callable[..., Any] = model
        _use_causal_attention(model)
        if self.cuda:
            self.forward = torch.compile(model, options={"deterministic": True})
            try:
                self._warm_up()  # compile before documents are generated, which takes every core
            except RuntimeError as error:
                if "deterministic" not in str(error):
                    raise
                warnings.warn(
                    f"on this GPU two trainings end with different weights: {error}", stacklevel=2
                )
                torch.use_deterministic_algorithms(True, warn_only=True)
                self._warm_up()

    def _warm_up(self) -> None:
        """A forward and backward pass without an update."""
        rows = torch.zeros(
            self.settings.batch_rows,
            self.settings.row_tokens + 1,
            dtype=torch.long,
            device=self.model.device,
        )
        self.loss(rows, (0, 0)).backward()
        self.optimizer.zero_grad(set_to_none=True)

    def train(
        self, batches: Iterator[Rows], tokenizer: Tokenizer, report: Report
    ) -> tuple[int, float]:
        """The number of tokens, and the loss, averaged over about the last fifty batches."""
        settings = self.settings
        answer_marks = _token_id(tokenizer, ">>new"), _token_id(tokenizer, ">>answer")
        seen, last_report = 0, 0.0
        average = torch.zeros((), device=self.model.device)
        for batch in batches:
            for group in self.optimizer.param_groups:
                group["lr"] = settings.learning_rate * _schedule(
                    seen / settings.tokens, settings.warmup_frac
                )
            tokens = torch.from_numpy(batch.astype(np.int64))
            loss = self.loss(tokens.to(self.model.device, non_blocking=True), answer_marks)
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

    def loss(self, tokens: torch.Tensor, answer_marks: tuple[int, int]) -> torch.Tensor:
        """Next-token cross-entropy of tokens [row, position]. Prompt tokens have a lower weight
        than answers, because most of a prompt is random."""
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.cuda):
            # outside the compiled model, where its deterministic gradient takes longer
            embeddings = self.model.model.embed_tokens(inputs)
            logits = self.forward(inputs_embeds=embeddings).logits
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten(), reduction="none"
        )
        weights = torch.where(_in_answers(targets, answer_marks), 1.0, self.settings.prompt_weight)
        weights = weights * (targets != PAD_ID)
        return (losses * weights.flatten()).sum() / weights.sum().clamp(min=1)


def _in_answers(targets: torch.Tensor, answer_marks: tuple[int, int]) -> torch.Tensor:
    """Whether a token, [row, position], is after the last of these marks in its document. There may
    be two of them: a critic is shown an answer, too."""
    is_mark = (targets == answer_marks[0]) | (targets == answer_marks[1])
    return _next_place(is_mark) > _next_place(targets == END_ID)


def _next_place(found: torch.Tensor) -> torch.Tensor:
    """By position: the next one, or this one, at which it is found; beyond the row: nowhere."""
    length = found.shape[1]
    places = torch.arange(length, device=found.device).where(found, length)
    return places.flip(1).cummin(1).values.flip(1)


def _token_id(tokenizer: Tokenizer, mark: str) -> int:
    token = tokenizer.token_to_id(mark)
    assert token is not None
    return token


def _schedule(done: float, warmup: float) -> float:
    """Learning-rate factor: linear warm-up, constant, then linear decay over the last half."""
    return min(done / warmup + 0.01, 1.0, 2 * (1 - done) + 0.01)
