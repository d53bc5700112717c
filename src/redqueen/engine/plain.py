"""Sampling from a bare base, without adapters: rows of about one length together, finished rows leave the batch."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from redqueen.engine import Completion, Row, Sampling
from redqueen.model.base import Base

_BATCH = 256
_TAIL = 24
"""Tokens looked at for a stop text."""


@torch.inference_mode()
def complete(base: Base, rows: Sequence[Row], sampling: Sampling, done: Callable[[int], None] = lambda count: None) -> list[Completion]:
    """One completion for each row, in order. `done` is told how many rows have ended."""
    order = sorted(range(len(rows)), key=lambda index: (rows[index].max_tokens, len(rows[index].prompt)))
    found: list[Completion | None] = [None] * len(rows)
    generator = torch.Generator(base.device).manual_seed(sampling.seed)
    for start in range(0, len(order), _BATCH):
        batch = order[start : start + _BATCH]
        for index, completion in zip(batch, _batch(base, [rows[index] for index in batch], sampling, generator, done), strict=True):
            found[index] = completion
    return [completion for completion in found if completion is not None]


def _batch(base: Base, rows: list[Row], sampling: Sampling, generator: torch.Generator, done: Callable[[int], None]) -> list[Completion]:
    device = base.device
    longest = max(len(row.prompt) for row in rows)
    limit = max(row.max_tokens for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest + limit, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, longest - len(row.prompt) :] = torch.tensor(row.prompt)
        mask[number, longest - len(row.prompt) :] = 1
    ids, mask = ids.to(device), mask.to(device)
    positions = (mask[:, :longest].cumsum(1) - 1).clamp(min=0)
    cache = Slab(base.model.config.get_text_config().num_hidden_layers, longest + limit)
    alive = list(range(len(rows)))
    open_rows = set(alive)
    written: list[list[int]] = [[] for _ in rows]
    ended: list[str] = ["length"] * len(rows)
    position = positions[:, -1:]
    for step in range(limit):
        out = base.model(
            input_ids=ids, attention_mask=mask[:, : longest + step], position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        tokens = _draw(out.logits[:, -1].float(), sampling, generator)
        for place, token in enumerate(tokens.tolist()):
            number = alive[place]
            if number in open_rows:
                written[number].append(token)
                if token in sampling.stop_tokens or _has_stop(base, written[number], sampling):
                    ended[number] = "stop"
                    open_rows.remove(number)
                elif len(written[number]) == rows[number].max_tokens:
                    open_rows.remove(number)
        if not open_rows:
            break
        position = position + 1
        if len(alive) - len(open_rows) >= max(1, len(alive) // 8):  # to move the cache costs more than a few idle rows
            done(len(alive) - len(open_rows))
            keep = [place for place, number in enumerate(alive) if number in open_rows]
            chosen = torch.tensor(keep, device=device)
            tokens, mask, position = tokens[chosen], mask[chosen], position[chosen]
            cache.select(chosen)
            alive = [alive[place] for place in keep]
        ids, positions = tokens[:, None], position
    done(len(alive))
    return [Completion(tuple(tokens), "stop" if end == "stop" else "length") for tokens, end in zip(written, ended, strict=True)]


def _draw(logits: torch.Tensor, sampling: Sampling, generator: torch.Generator) -> torch.Tensor:
    if sampling.temperature == 0:
        return logits.argmax(-1)
    chances = torch.softmax(logits / sampling.temperature, -1)
    return torch.multinomial(chances, 1, generator=generator)[:, 0]


def _has_stop(base: Base, tokens: list[int], sampling: Sampling) -> bool:
    if not sampling.stop_texts:
        return False
    tail = base.decode(tokens[-_TAIL:])
    return any(text in tail for text in sampling.stop_texts)


class Slab(Cache):
    """Keys and values in one piece of memory for each layer, as long as the batch can get: no copy when a token is added."""

    def __init__(self, layers: int, length: int) -> None:
        self.slabs = [_Layer(length) for _ in range(layers)]
        super().__init__(layers=list(self.slabs))

    def select(self, rows: torch.Tensor) -> None:
        """Keep these rows, given in order; they move up within the same memory."""
        for layer in self.slabs:
            layer.select(rows)


class _Layer(CacheLayerMixin):
    is_sliding = False

    def __init__(self, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length, self.filled, self.rows = length, 0, 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.rows, heads, _, size = key_states.shape
        self.keys = key_states.new_empty(self.rows, heads, self.length, size)
        self.values = value_states.new_empty(self.rows, heads, self.length, size)
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        end = self.filled + key_states.shape[2]
        self.keys[: self.rows, :, self.filled : end] = key_states
        self.values[: self.rows, :, self.filled : end] = value_states
        self.filled = end
        return self.keys[: self.rows, :, :end], self.values[: self.rows, :, :end]

    def select(self, rows: torch.Tensor) -> None:
        assert self.keys is not None and self.values is not None
        self.rows = len(rows)
        self.keys[: self.rows, :, : self.filled] = self.keys[rows, :, : self.filled]
        self.values[: self.rows, :, : self.filled] = self.values[rows, :, : self.filled]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.filled + query_length, 0

    def get_seq_length(self, *args: Any) -> int:
        return self.filled

    def get_max_length(self) -> int:
        return self.length

    def get_max_cache_shape(self) -> int:
        return self.length
