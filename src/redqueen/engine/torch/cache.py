"""KV caches. Decoding: one preallocated pair of tensors per layer, one row per sequence slot, every
sequence at a position of its own. Prefill: what one forward pass leaves behind."""

import math
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class KVCache(Cache):
    """Keys and values of all sequence slots. A decode step adds one token to every slot, at the
    slot's own position; a prompt fills a slot from position 0."""

    def __init__(
        self, layers: int, seq_slots: int, length: int, memory: "KVMemory | None" = None
    ) -> None:
        """Without memory to share it has its own."""
        own = memory or KVMemory(seq_slots * length)
        self.by_layer = [_LayerKV(seq_slots, length, own, layer) for layer in range(layers)]
        super().__init__(layers=list(self.by_layer))

    def at(self, positions: Tensor, window: int) -> "KVCache":
        """The next forward pass writes one token per slot at `positions`, [seq_slots], and attends
        to the first `window` positions."""
        for layer in self.by_layer:
            layer.positions, layer.window = positions, window
        return self

    def fill(self, seq_slots: Tensor, prompts: "PromptKV", source: Tensor) -> None:
        """Copy prompts into sequence slots: row `source[i]` of the prefill batch into
        `seq_slots[i]`."""
        for layer, (keys, values) in zip(self.by_layer, prompts.by_layer(), strict=True):
            layer.fill(seq_slots, keys[source], values[source])

    def copy_from(self, other: "KVCache", source: Tensor, target: Tensor) -> None:
        """Copy sequence slots `source` of another cache (or of this one) into `target`."""
        for layer, full in zip(self.by_layer, other.by_layer, strict=True):
            assert full.keys is not None and full.values is not None
            layer.fill(target, full.keys[source], full.values[source])


class KVMemory:
    """Room for so many tokens in every layer, which caches may share if one is in use at a time.
    Sequences go from one to another layer by layer: they are read before they are written, so that
    a smaller cache takes over from a larger one in the same place."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self._by_layer: dict[int, tuple[Tensor, Tensor]] = {}

    def take(self, layer: int, shape: tuple[int, int, int, int], like: Tensor) -> list[Tensor]:
        """Keys and values of a layer in this shape; what they hold is what was there before."""
        _, heads, _, head_dim = shape
        if layer not in self._by_layer:
            keys = like.new_zeros(self.tokens * heads * head_dim)
            self._by_layer[layer] = keys, torch.zeros_like(keys)
        return [flat[: math.prod(shape)].view(shape) for flat in self._by_layer[layer]]


class _Layer(CacheLayerMixin):
    """What transformers asks of a cache layer. Masks and positions come from the caller, so the
    sizes reported here are never used to build them."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.is_initialized = True

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self, *args: Any) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:
        return -1


class _LayerKV(_Layer):
    """Keys and values of one layer, both [seq_slots, kv_heads, length, head_dim]."""

    def __init__(self, seq_slots: int, length: int, memory: KVMemory, layer: int) -> None:
        super().__init__()
        self.memory, self.layer = memory, layer
        self.seq_slots, self.length, self.window = seq_slots, length, length
        self.positions: Tensor | None = None
        self.slot_index: Tensor | None = None

    def _allocate(self, like: Tensor) -> None:
        """The first prompt tells heads, head size, dtype and device."""
        shape = (self.seq_slots, like.shape[1], self.length, like.shape[3])
        self.keys, self.values = self.memory.take(self.layer, shape, like)
        self.slot_index = torch.arange(self.seq_slots, device=like.device)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add one token per slot, [seq_slots, kv_heads, 1, head_dim]; return what attention may
        look at, [seq_slots, kv_heads, window, head_dim]."""
        assert self.keys is not None and self.values is not None and self.positions is not None
        self.keys[self.slot_index, :, self.positions] = key_states[:, :, 0]
        self.values[self.slot_index, :, self.positions] = value_states[:, :, 0]
        return self.keys[:, :, : self.window], self.values[:, :, : self.window]

    def fill(self, seq_slots: Tensor, keys: Tensor, values: Tensor) -> None:
        if not self.is_initialized:
            self._allocate(keys)
        assert self.keys is not None and self.values is not None
        self.keys[seq_slots, :, : keys.shape[2]] = keys
        self.values[seq_slots, :, : values.shape[2]] = values


class PromptKV(Cache):
    """Collects the keys and values of one prefill batch, [prompts, kv_heads, tokens, head_dim]."""

    def __init__(self, layers: int) -> None:
        self.collected = [_CollectedKV() for _ in range(layers)]
        super().__init__(layers=list(self.collected))

    def by_layer(self) -> list[tuple[Tensor, Tensor]]:
        return [
            (layer.keys, layer.values)
            for layer in self.collected
            if layer.keys is not None and layer.values is not None
        ]


class _CollectedKV(_Layer):
    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        self.keys, self.values = key_states, value_states
        return key_states, value_states


def kv_bytes_per_token(config: Any, itemsize: int) -> int:
    """Bytes of the keys and values of one token in all layers of a model with this config."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * head_dim * itemsize)
