"""Keys and values of many rows: one slab of memory for each layer, a lane for each row, each row at
a position of its own."""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class Lanes(Cache):
    """The slabs of all layers. In decoding each lane adds one token at its own position; a prompt
    fills a lane from the start."""

    def __init__(self, layers: int, lanes: int, length: int) -> None:
        self.slabs = [_Slab(lanes, length) for _ in range(layers)]
        super().__init__(layers=list(self.slabs))

    def at(self, positions: Tensor, window: int) -> "Lanes":
        """The next pass adds a token to every lane at these positions, and looks at the first
        `window` places."""
        for slab in self.slabs:
            slab.positions, slab.window = positions, window
        return self

    def fill(self, lanes: Tensor, prompts: "Prompts", rows: Tensor) -> None:
        """Copy the keys and values of prompts into lanes: the prompt in `rows` at the same place
        goes to the lane."""
        for slab, (keys, values) in zip(self.slabs, prompts.states(), strict=True):
            slab.fill(lanes, keys[rows], values[rows])

    def take(self, other: "Lanes", lanes: Tensor, into: Tensor) -> None:
        """What is in these lanes of another goes into lanes of this one."""
        for slab, full in zip(self.slabs, other.slabs, strict=True):
            assert full.keys is not None and full.values is not None
            slab.fill(into, full.keys[lanes], full.values[lanes])

    @property
    def bytes(self) -> int:
        return sum(
            2 * slab.keys.numel() * slab.keys.element_size()
            for slab in self.slabs
            if slab.keys is not None
        )


class _Layer(CacheLayerMixin):
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


class _Slab(_Layer):
    def __init__(self, lanes: int, length: int) -> None:
        super().__init__()
        self.lanes, self.length, self.window = lanes, length, length
        self.positions: Tensor | None = None
        self.numbers: Tensor | None = None

    def _make(self, like: Tensor) -> None:
        self.keys = like.new_zeros(self.lanes, like.shape[1], self.length, like.shape[3])
        self.values = torch.zeros_like(self.keys)
        self.numbers = torch.arange(self.lanes, device=like.device)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        assert self.keys is not None and self.values is not None and self.positions is not None
        self.keys[self.numbers, :, self.positions] = key_states[:, :, 0]
        self.values[self.numbers, :, self.positions] = value_states[:, :, 0]
        return self.keys[:, :, : self.window], self.values[:, :, : self.window]

    def fill(self, lanes: Tensor, keys: Tensor, values: Tensor) -> None:
        if not self.is_initialized:
            self._make(keys)
        assert self.keys is not None and self.values is not None
        self.keys[lanes, :, : keys.shape[2]] = keys
        self.values[lanes, :, : values.shape[2]] = values


class Prompts(Cache):
    """Collects the keys and values of one pass over prompts."""

    def __init__(self, layers: int) -> None:
        self.collected = [_Collected() for _ in range(layers)]
        super().__init__(layers=list(self.collected))

    def states(self) -> list[tuple[Tensor, Tensor]]:
        return [
            (layer.keys, layer.values)
            for layer in self.collected
            if layer.keys is not None and layer.values is not None
        ]


class _Collected(_Layer):
    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        self.keys, self.values = key_states, value_states
        return key_states, value_states
